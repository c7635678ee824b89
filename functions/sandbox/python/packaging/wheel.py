"""Writes reproducible wheels."""

import base64
import hashlib
import os
import stat
import zipfile

import metadata

# The earliest time of zip files; the time of the build would make builds differ.
_TIME = (1980, 1, 1, 0, 0, 0)


def prefix():
    """Return the name and version that wheels, sources and their folders begin with."""
    return f"{metadata.NAME}-{metadata.version()}"


def dist_info(tags, pure=True, script=None):
    """Return the files of the .dist-info folder except RECORD: {name: bytes}."""
    folder = prefix() + ".dist-info/"
    lines = ["Wheel-Version: 1.0", "Generator: millrace-packaging", f"Root-Is-Purelib: {str(pure).lower()}"]
    lines += [f"Tag: {tag}" for tag in tags]
    files = {folder + "METADATA": metadata.core_metadata(), folder + "WHEEL": ("\n".join(lines) + "\n").encode()}
    if script is None:
        files[folder + "entry_points.txt"] = metadata.ENTRY_POINTS.encode()
    return files


def write(directory, tag, files, scripts=()):
    """Write a wheel and return its file name.

    files is {name: bytes}, those of .dist-info among them; tag is the compressed
    tag of the file name; the files named in scripts are executable.
    """
    record = prefix() + ".dist-info/RECORD"
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    files = {**files, record: ("\n".join([*lines, record + ",,"]) + "\n").encode()}
    name = f"{prefix()}-{tag}.whl"
    target = os.path.join(directory, name)
    with zipfile.ZipFile(target + ".new", "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            info = zipfile.ZipInfo(path, _TIME)
            info.create_system = 3  # Unix, wherever it is built: the modes below count
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFREG | (0o755 if path in scripts else 0o644)) << 16
            archive.writestr(info, data)
    os.replace(target + ".new", target)
    return name


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
