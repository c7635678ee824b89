"""Artifacts: the zip of a flow's code."""

import os
import zipfile

from .errors import FlowDefinitionError

SKIPPED = {"__pycache__", "node_modules", "venv"}


def pack(directory, output):
    """Zip the files below directory, hidden ones and bytecode left out; return how many.

    The same files give the same bytes, so the service sees whether code changed.
    """
    if not os.path.isdir(directory):
        raise FlowDefinitionError(f"there is no directory {directory!r}")
    target = os.path.realpath(output)
    names = []
    for parent, directories, files in os.walk(directory):
        directories[:] = sorted(d for d in directories if d not in SKIPPED and not d.startswith("."))
        for name in directories + files:
            if os.path.islink(os.path.join(parent, name)):
                raise FlowDefinitionError(f"{os.path.join(parent, name)} is a symbolic link, which artifacts may not hold")
        names += [os.path.join(parent, f) for f in files if not f.startswith(".") and not f.endswith(".pyc")]
    names = sorted(n for n in names if os.path.realpath(n) != target)
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            info = zipfile.ZipInfo(os.path.relpath(name, directory).replace(os.sep, "/"), (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o755 if os.access(name, os.X_OK) else 0o644) << 16
            with open(name, "rb") as file:
                archive.writestr(info, file.read())
    return len(names)
