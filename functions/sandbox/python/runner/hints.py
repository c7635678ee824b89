"""Explains to a task's author why a file of the machine is missing, or cannot grow."""

import errno
import os


def explain(setup, scratch):
    """Return a function that returns a sentence to add to an exception's message, or ""."""
    namespaces = setup["mode"] == "namespaces"
    hidden = [os.path.realpath(directory) for directory in setup["hide"]]
    largest = setup["limits"].get("FSIZE", 0) >> 20
    mounts = [mount["path"] for mount in setup.get("mounts", ())]

    def hint(error):
        if largest and isinstance(error, OSError) and error.errno == errno.EFBIG:
            return f" (a file of a task has at most {largest:,} MB, bounded by the server's --python-scratch)"
        if not namespaces or not isinstance(error, OSError) or not isinstance(error.filename, (str, bytes)):
            return ""
        path = os.fsdecode(error.filename)
        if not os.path.isabs(path):
            return ""
        path = os.path.normpath(path)
        mounted = any(_within(path, mount) for mount in mounts)
        if isinstance(error, PermissionError) and mounted:
            return f" (tasks run as user {os.getuid()}, whom the directory has to allow it)"
        if isinstance(error, (FileNotFoundError, PermissionError)) and not mounted:
            for directory in hidden:
                if _within(path, directory):
                    return f" (tasks see nothing of {directory}: start the server with --mount DIR to show them a directory of it)"
            if _within(path, "/tmp") and path != "/tmp":
                return " (tasks have a /tmp of their own: put files for them elsewhere, and start the server with --mount DIR)"
        if error.errno == errno.EROFS and not _within(path, scratch):
            return " (tasks write to /tmp alone: start the server with --mount DIR:rw to let them write to a directory)"
        return ""

    return hint


def _within(path, directory):
    return path == directory or path.startswith(directory.rstrip("/") + "/")
