"""Artifacts: the zip of a flow's code, and of the packages that it needs."""

import hashlib
import os
import zipfile

from . import _requirements
from .errors import FlowDefinitionError

SKIPPED = {"__pycache__", "node_modules", "venv"}


class Packed:
    """A zip that was made: the fields of ``as_dict``."""

    def __init__(self, output, files, dependencies, cached, platform, python_version):
        self.output = output
        self.files = files  # how many are in it
        self.dependencies = dependencies  # [{"name", "version"}], of requirements.txt
        self.cached = cached  # whether they were installed before
        self.platform = platform or _requirements.this_platform()
        self.python_version = python_version or _requirements.this_python()
        self.bytes = os.path.getsize(output)
        with open(output, "rb") as file:
            self.sha256 = hashlib.sha256(file.read()).hexdigest()

    def as_dict(self):
        """Return {output, files, bytes, sha256, dependencies, cached, platform, python_version}."""
        return dict(vars(self))


def pack(directory, output, platform=None, python_version=None):
    """Zip the files below directory, except hidden ones and bytecode; return the Packed.

    The packages in its requirements.txt are included, for a platform (linux/arm64 …)
    and Python (3.13 …), by default those of this machine. The same files give the same
    bytes, so that the service recognizes unchanged code.
    """
    if not os.path.isdir(directory):
        raise FlowDefinitionError(f"there is no directory {directory!r}")
    members = _own(directory, os.path.realpath(output))
    folder, cached = _requirements.install(directory, platform, python_version)
    dependencies = []
    if folder is not None:
        dependencies = _requirements.installed(folder)
        for name, path in _installed(folder).items():
            if name in members:
                raise FlowDefinitionError(f"{name} of {directory} is also a file of a package in requirements.txt: rename yours")
            members[name] = path
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(members.items()):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o755 if os.access(path, os.X_OK) else 0o644) << 16
            with open(path, "rb") as file:
                archive.writestr(info, file.read())
    return Packed(output, len(members), dependencies, cached, platform, python_version)


def _own(directory, target):
    """Return the author's files, {name in the zip: path}, but the zip itself.

    The data directory of a server is left out, whose keys no task may read, and so
    are sockets and devices.
    """
    members = {}
    for parent, directories, files in os.walk(directory):
        directories[:] = sorted(
            d for d in directories if d not in SKIPPED and not d.startswith(".") and not _is_data(os.path.join(parent, d))
        )
        for name in directories + files:
            if os.path.islink(os.path.join(parent, name)):
                raise FlowDefinitionError(f"{os.path.join(parent, name)} is a symbolic link, which artifacts may not hold")
        for name in files:
            path = os.path.join(parent, name)
            if name.startswith(".") or name.endswith(".pyc") or os.path.realpath(path) == target:
                continue
            if os.path.isfile(path):
                members[os.path.relpath(path, directory).replace(os.sep, "/")] = path
    return members


def _is_data(directory):
    return all(os.path.exists(os.path.join(directory, name)) for name in ("format.json", "vault.key", "store"))


def _installed(folder):
    """Return all files of installed packages, hidden ones too: {name in the zip: path}."""
    members = {}
    for parent, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(parent, name)
            members[os.path.relpath(path, folder).replace(os.sep, "/")] = path
    return members
