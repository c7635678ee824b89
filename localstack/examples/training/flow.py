"""A linear regression and a small neural network, trained with numpy.

The same training runs on three tiers; its results do not depend on the memory.
numpy comes from the interpreter, so the server is started with one that has it:

    millrace serve --python .venv/bin/python
"""

import os

# One thread: small tiers have no more CPU, and the results are reproducible.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np
from millrace import flow, task

WEIGHTS = [2.0, -1.0, 0.5, 3.0]


@task
def sample(rows: int, seed: int):
    """Rows of four features, and their weighted sums with some noise."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(rows, len(WEIGHTS)))
    return {"x": features.round(4), "y": (features @ WEIGHTS + random.normal(scale=0.1, size=rows)).round(4)}


@task
def regression(data):
    x, y = np.array(data["x"]), np.array(data["y"])
    weights, *_ = np.linalg.lstsq(x, y, rcond=None)
    print("weights", weights.round(2))
    return {"weights": weights.round(2), "error": np.square(x @ weights - y).mean().round(3)}


@task(timeout="2m")
def network(ctx, data, steps: int = 300, hidden: int = 16):
    """Train a network with one hidden layer by gradient descent."""
    x, y = np.array(data["x"]), np.array(data["y"])[:, None]
    random = np.random.default_rng(1)
    first, second = random.normal(scale=0.5, size=(x.shape[1], hidden)), random.normal(scale=0.5, size=(hidden, 1))
    losses = []
    for step in range(steps):
        inner = np.tanh(x @ first)
        error = inner @ second - y
        losses.append(float(np.square(error).mean()))
        if step % 100 == 0:
            ctx.log("training", step=step, loss=round(losses[-1], 3))
        gradient = 2 * error / len(x)
        first, second = first - 0.05 * x.T @ (gradient @ second.T * (1 - inner**2)), second - 0.05 * inner.T @ gradient
    return {"first": round(losses[0], 2), "last": round(losses[-1], 2)}


@flow
def training(rows: int = 2000, seed: int = 7):
    data = sample.with_options(tier="small")(rows, seed)
    trained = {}
    for tier in ("nano", "small", "medium"):
        line = regression.with_options(name=f"regression_{tier}", tier=tier)(data)
        net = network.with_options(name=f"network_{tier}", tier=tier)(data)
        trained[tier] = {"regression": line, "network": net}
    return trained


if __name__ == "__main__":
    print(training().result)
