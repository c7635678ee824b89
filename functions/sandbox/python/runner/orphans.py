"""Adopts, finds and ends the processes that tasks of the Lambda transport leave behind."""

import os
import signal
import sys
import time

from .confine import _PR_SET_CHILD_SUBREAPER, _PR_SET_DUMPABLE, _prctl


def harden():
    """Deny tasks, which run as the same user, access to this process's memory and environment; adopt orphaned descendants."""
    if sys.platform == "linux":
        _prctl(_PR_SET_DUMPABLE, 0)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def descendants():
    """Return the ids of all descendants of this process."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The name, in parentheses, may contain anything.
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                pass
    found, more = set(), {os.getpid()}
    while more:
        more = {pid for pid, parent in parents.items() if parent in more} - found
        found |= more
    return found


def end(seconds=2.0):
    """Kill all processes that a task left, also those in other sessions; return false if one survives."""
    if not os.path.isdir("/proc/self"):
        return True
    until = time.monotonic() + seconds
    while left := descendants():
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True
