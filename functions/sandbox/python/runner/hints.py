"""Explains to a task's author why a file of the machine is missing."""

import errno
import os


def explain(setup, scratch):
    """Return a function that returns a sentence to add to an exception's message, or ""."""
    if setup["mode"] != "namespaces":
        return lambda error: ""
    hidden = [os.path.realpath(directory) for directory in setup["hide"]]
    mounts = [mount["path"] for mount in setup.get("mounts", ())]

    def hint(error):
        if not isinstance(error, OSError) or not isinstance(error.filename, (str, bytes)):
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
