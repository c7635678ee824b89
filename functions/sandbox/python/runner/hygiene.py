"""Restores the state of the process between tasks."""

# The C module: the functions of signal convert every number to an enum, which
# would take most of the time of a warm call.
import _signal
import os
import signal
import sys
import time

_SIGNALS = tuple(
    int(getattr(signal, name))
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGCHLD", "SIGHUP", "SIGPIPE", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGPROF", "SIGVTALRM")
    if hasattr(signal, name)
)
# Directory entries of the sandbox itself, never a task's, and the working
# directory of tasks.
KEEP = ".millrace"
WORK = "work"

# Set by the local runner: the task's own directory, and its directory in memory
# with the size that tells that it is empty; both are emptied after each task.
scratch = memory = None
# Set by the local runner: where the artifact is.
artifact = None
empty_size = 0
# Set by the local runner when this interpreter has a PID namespace or a user of
# its own: every process that it may signal is then a descendant of the task.
alone = False
# The directories as furnish left them, by path. It sets their modification time to
# _MARK, long ago; whatever is made, removed or replaced in one sets it to now, however
# coarse the file system's clock is. So three calls tell that a task has changed
# nothing, in place of listing everything.
_MARK = (int(time.time()) - 86_400) * 10**9
_left = {}


class Snapshot:
    """A snapshot of the process's state before a task; restore() restores it."""

    def __init__(self):
        self.cwd = os.getcwd()
        self.env = dict(os.environ._data)
        self.argv = list(sys.argv)
        self.path = list(sys.path)
        self.umask = _umask()
        self.std = sys.stdin, sys.stdout, sys.stderr
        self.hooks = sys.excepthook, sys.displayhook
        self.limit = sys.getrecursionlimit()
        self.signals = list(map(_signal.getsignal, _SIGNALS))
        self.logging = _logging_state()
        self.threads = _thread_count()

    def restore(self):
        """Restore the state; true if threads or processes remain that cannot be removed."""
        sys.stdin, sys.stdout, sys.stderr = self.std
        sys.excepthook, sys.displayhook = self.hooks
        sys.settrace(None)
        sys.setprofile(None)
        if sys.getrecursionlimit() != self.limit:
            sys.setrecursionlimit(self.limit)
        sys.argv[:] = self.argv
        sys.path[:] = self.path
        os.umask(self.umask)
        if os.environ._data != self.env:
            os.environ.clear()
            os.environ.update({os.fsdecode(key): os.fsdecode(value) for key, value in self.env.items()})
        for number, handler in zip(_SIGNALS, self.signals):
            if _signal.getsignal(number) is not handler and handler is not None:
                _signal.signal(number, handler)
        _restore_logging(self.logging)
        left = _end_children()
        if scratch is not None and not _untouched():
            left = not _empty(scratch) or not furnish() or left
        # One call instead of the five of a listing, because few tasks use it.
        if memory is not None and os.stat(memory).st_size != empty_size:
            left = not _empty(memory) or left
        try:
            os.chdir(self.cwd)
        except OSError:
            return True
        return left or _thread_count() > self.threads


def _umask():
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _thread_count():
    threading = sys.modules.get("threading")
    if threading is None:
        return 1
    return threading.active_count()


def _logging_state():
    logging = sys.modules.get("logging")
    if logging is None:
        return None
    root = logging.root
    return root.level, list(root.handlers), list(root.filters), root.disabled, root.manager.disable


def _restore_logging(state):
    if state is None:
        return
    root = sys.modules["logging"].root
    root.level, root.handlers[:], root.filters[:], root.disabled, root.manager.disable = state
    root.manager._clear_cache()


def _end_children():
    """Kill the processes that the task did not wait for; true if some may remain."""
    try:
        while True:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
    except ChildProcessError:
        return False
    if not alone:
        return True
    try:
        os.kill(-1, signal.SIGKILL)
        while True:
            os.waitpid(-1, 0)
    except (ChildProcessError, ProcessLookupError):
        return False


def furnish():
    """Make the working directory: the task's own, with a link to each file and folder of the artifact; false if that fails.

    So a task opens files that are packed with its code by relative paths, and can also
    write files there."""
    work = os.path.join(scratch, WORK)
    _left.clear()
    try:
        if not _link_all(work):
            return False
    except OSError:
        return False
    try:
        for directory in (scratch, work):
            os.utime(directory, ns=(_MARK, _MARK))
        _left.update({directory: _state(directory) for directory in (scratch, work, artifact)})
    except OSError:
        _left.clear()  # everything is listed after each task
    return True


def _link_all(work):
    """Make the links of the working directory; false if something in it cannot be removed."""
    wanted = {name: os.path.join(artifact, name) for name in os.listdir(artifact)}
    if not os.path.isdir(work) or os.path.islink(work):
        _empty(scratch, (KEEP,))
        os.mkdir(work)
    found = os.listdir(work)
    if len(found) == len(wanted) and all(_links(os.path.join(work, name), wanted.get(name)) for name in found):
        return True
    if not _empty(work, ()):
        return False
    for name, target in wanted.items():
        os.symlink(target, os.path.join(work, name))
    return True


def _untouched():
    """Whether nothing was made, removed or replaced in the task's directories since furnish."""
    try:
        return bool(_left) and all([_state(directory) == state for directory, state in _left.items()])
    except OSError:
        return False


def _state(directory):
    found = os.lstat(directory)
    return found.st_ino, found.st_dev, found.st_mode, found.st_mtime_ns, found.st_ctime_ns


def _links(path, target):
    try:
        return os.readlink(path) == target
    except OSError:
        return False


def _empty(directory, keep=(KEEP, WORK)):
    try:
        names = [name for name in os.listdir(directory) if name not in keep]
        if names:
            import shutil

            for name in names:
                path = os.path.join(directory, name)
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path)
                else:
                    os.unlink(path)
    except OSError:
        return False
    return True
