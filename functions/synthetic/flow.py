"""The flow of the synthetic run: one task in the sandbox."""

from millrace import flow, task


@task(timeout_secs=30)
def answer(ctx):
    ctx.log("a synthetic run")
    return 42


@flow(name="synthetic", version="1")
def synthetic():
    answer()
