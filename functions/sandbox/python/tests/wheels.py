"""Builds wheels of the packages in tests/packages, so that tests need no network."""

import base64
import hashlib
import os
import sys
import zipfile

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "packages")
# What a package needs.
_REQUIRES = {"tables": ["slugs>=1"]}


def build(directory, name, version="1.0", tag="py3-none-any", script=False):
    """Write the wheel of a package in directory and return its path; with script it installs one."""
    root = os.path.join(SOURCES, name)
    files = {}
    for parent, directories, names in os.walk(root):
        directories[:] = [d for d in directories if d != "__pycache__"]
        for file in names:
            path = os.path.join(parent, file)
            with open(path, "rb") as source:
                data = source.read().replace(b"@VERSION@", version.encode()).replace(b"@TAG@", tag.encode())
            files[os.path.relpath(path, root).replace(os.sep, "/")] = data
    info = f"{name}-{version}.dist-info/"
    needs = "".join(f"Requires-Dist: {need}\n" for need in _REQUIRES.get(name, ()))
    files[info + "METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}".encode()
    files[info + "WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n".encode()
    if script:
        files[f"{name}-{version}.data/scripts/{name}"] = b"#!python\nprint(1)\n"
    digest = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    lines = [f"{path},sha256={digest(data)},{len(data)}" for path, data in files.items()]
    files[info + "RECORD"] = ("\n".join([*lines, info + "RECORD,,"]) + "\n").encode()
    path = os.path.join(directory, f"{name}-{version}-{tag}.whl")
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in files.items():
            archive.writestr(zipfile.ZipInfo(member, (1980, 1, 1, 0, 0, 0)), data)
    return path


if __name__ == "__main__":
    print(*(build(sys.argv[1], name) for name in sys.argv[2:]), sep="\n")
