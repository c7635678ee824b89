"""The first process of a PID namespace, where there is one."""

import _signal
import os


def init():
    """Let signals end this process; continue in a child if this process is the first of its PID namespace.

    The kernel keeps from such a process every signal that it sends to itself, or
    gets from its children, and has no handler for: a task in it that kills itself
    would go on. So this one waits for the child and ends as it does: with its exit
    status, or 128 and the signal that killed it. With it ends the namespace.
    """
    # A server started by nohup ignores the signal; its tasks must not.
    _signal.signal(_signal.SIGHUP, _signal.SIG_DFL)
    if os.getpid() != 1:
        return
    child = os.fork()
    if child == 0:
        return
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    os.closerange(0, 1 << 10)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
