"""Tasks that start programs: their output, exit status and signals.

    python flow.py
"""

import os
import signal
import subprocess

from millrace import flow, task


@task
def speak():
    """The output of a program is in the run's log, line by line."""
    done = subprocess.run(["sh", "-c", "echo to the log; echo careful >&2; exit 3"])
    return done.returncode


@task
def capture(ctx):
    """Captured output is not in the log; the program continues the trace."""
    done = subprocess.run(["sh", "-c", "wc -l; echo $TRACEPARENT"], input="a\nb\n", capture_output=True, text=True, check=True)
    lines, trace = done.stdout.splitlines()
    return {"lines": int(lines), "traced": trace == (ctx.traceparent or "")}


@task
def killed():
    """A program that was killed by a signal has a negative status."""
    child = subprocess.Popen(["sleep", "3600"])
    child.send_signal(signal.SIGKILL)
    status = child.wait()
    print("killed by", signal.Signals(-status).name)
    return status


@task(retries=1, retry_backoff=0.01)
def strict(ctx):
    """With check=True a status other than 0 fails the attempt."""
    subprocess.run(["sh", "-c", f"echo attempt {ctx.attempt}; exit 4"], check=True)


@task
def missing():
    """A missing program is an ordinary exception."""
    try:
        subprocess.run(["no-such-program"])
    except FileNotFoundError as error:
        return os.strerror(error.errno)


@task(trigger_rule="all_done")
def report(status, captured, killed, missing):
    return {"status": status, "captured": captured, "killed": killed, "missing": missing}


@flow
def programs():
    failed = strict()
    return report(speak(), capture(), killed(), missing()).after(failed)


if __name__ == "__main__":
    print(programs().result)
