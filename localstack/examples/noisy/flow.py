"""A task that writes 10 MB to standard output, as a chatty library would.

Each line is an event of the run's log. A line over 64 KB is cut into several.

    python flow.py
"""

import subprocess
import sys

from millrace import flow, task

LINE = "x" * 990
LONG = "y" * 150_000
# Written by a subprocess: its output bypasses the streams of this Python process.
CHILD = "import sys; print('z' * int(sys.argv[1])); print('the child is done')"


@task(timeout="5m")
def chatter(lines: int):
    for n in range(lines):
        print(f"{n:08d} {LINE}")
    print(LONG)
    subprocess.run([sys.executable, "-c", CHILD, str(len(LONG))], check=True)
    print("no end of line", end="")
    return lines


@flow
def noisy(lines: int = 10_000):
    return chatter(lines)


if __name__ == "__main__":
    print(noisy().result)
