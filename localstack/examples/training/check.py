"""Trains on the embedded server, on three tiers, and here; compares. `make numpy` runs it.

    python check.py [path/to/millrace]      # without: is there a numpy?
"""

import os
import subprocess
import sys
import tempfile
import time

NEEDS = "name a Python that has it (of a virtual environment, or Debian's with python3-numpy) by make numpy NUMPY_PYTHON=/path/to/python"
TIERS = ("nano", "small", "medium")
HERE = os.path.dirname(os.path.abspath(__file__))


def main(binary=None):
    try:
        import numpy
    except ImportError:
        sys.exit(f"{sys.executable} has no numpy: {NEEDS}")
    if binary is None:
        return
    sys.path[:0] = [os.path.join(HERE, "..", "..", "..", "functions", "sandbox", "python"), HERE]
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)  # tasks may run as another user
        os.environ["MILLRACE_HOME"] = os.path.join(place, "home")
        server = subprocess.Popen([os.path.abspath(binary), "serve", "--listen", "127.0.0.1:0", "--python", interpreter(place)], cwd=place)
        try:
            compare(place, server)
        finally:
            server.terminate()
            server.wait()
    print(f"numpy {numpy.__version__} of {sys.executable}: the same on {', '.join(TIERS)} and here")


def interpreter(place):
    """Return the interpreter of a virtual environment, whose packages the server's tasks can import."""
    if sys.prefix != sys.base_prefix:
        return sys.executable
    import venv

    # The server does not use the system's packages; a virtual environment may include them.
    venv.create(os.path.join(place, "venv"), system_site_packages=True)
    return os.path.join(place, "venv", "bin", "python")


def compare(place, server):
    from flow import training
    from millrace import Client
    from millrace.client import ConnectionFailedError, NoServerError

    here = training().result
    os.chdir(place)  # its .millrace has the credentials
    for name in ("MILLRACE_URL", "MILLRACE_API_KEY", "MILLRACE_ORG"):
        os.environ.pop(name, None)
    while True:
        try:
            client = Client(retries=0)
            client.flows()
            break
        except (ConnectionFailedError, NoServerError):
            if server.poll() is not None:
                sys.exit("the server did not start")
            time.sleep(0.1)
    client.deploy(training, HERE)
    run = client.run("training").wait(timeout=600).raise_for_status()
    for tier in TIERS:
        seconds = [run.task(f"{kind}_{tier}").duration_ms / 1000 for kind in ("regression", "network")]
        print(f"{tier:<6} regression {seconds[0]:.2f} s, network {seconds[1]:.2f} s: {run.result[tier]}")
        if not run.result[tier] == here[tier] == here[TIERS[0]]:
            sys.exit(f"the result on {tier} differs from that here: {here[tier]}")
    weights = here[TIERS[0]]["regression"]["weights"]
    if weights != [2.0, -1.0, 0.5, 3.0]:
        sys.exit(f"the regression found the weights {weights}")


if __name__ == "__main__":
    main(*sys.argv[1:])
