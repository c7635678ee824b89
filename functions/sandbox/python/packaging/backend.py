"""The build backend of the package: PEP 517 and, for pip install -e, PEP 660.

It needs the standard library only. Distributions contain the package millrace and
nothing else of this folder; binary.py builds the wheels that contain the binary.
"""

import gzip
import io
import os
import tarfile

import metadata
import wheel

_TAG = "py3-none-any"

# An editable installation finds this package by an import finder: a path in a .pth
# file would make the folders next to it importable, too.
_FINDER = '''\
import importlib.util
import sys

PACKAGE = {package!r}


class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "millrace":
            return None
        return importlib.util.spec_from_file_location(name, PACKAGE + "/__init__.py", submodule_search_locations=[PACKAGE])


sys.meta_path.append(Finder)
'''


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_editable = get_requires_for_build_sdist = get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Write the .dist-info folder and return its name."""
    for name, data in wheel.dist_info([_TAG]).items():
        path = os.path.join(metadata_directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    return wheel.prefix() + ".dist-info"


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Write the wheel of pure Python and return its file name."""
    files = {name: metadata.read(path) for name, path in metadata.package_files()}
    return wheel.write(wheel_directory, _TAG, {**files, **wheel.dist_info([_TAG])})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Write a wheel that imports the package from this folder and return its file name."""
    finder = "_editable_millrace"
    files = {
        finder + ".py": _FINDER.format(package=metadata.PACKAGE).encode(),
        finder + ".pth": f"import {finder}\n".encode(),
    }
    return wheel.write(wheel_directory, _TAG, {**files, **wheel.dist_info([_TAG])})


def build_sdist(sdist_directory, config_settings=None):
    """Write the source distribution and return its file name."""
    root = wheel.prefix()
    files = dict(metadata.package_files())
    for name in ("README.md", "pyproject.toml"):
        files[name] = os.path.join(metadata.ROOT, name)
    folder = os.path.dirname(os.path.abspath(__file__))
    files.update((f"packaging/{n}", os.path.join(folder, n)) for n in os.listdir(folder) if n.endswith(".py"))
    content = {name: metadata.read(path) for name, path in files.items()}
    content["PKG-INFO"] = metadata.core_metadata()
    name = root + ".tar.gz"
    with open(os.path.join(sdist_directory, name), "wb") as file:
        # The header must not contain the time or the file's name.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
                for path, data in sorted(content.items()):
                    info = tarfile.TarInfo(f"{root}/{path}")
                    info.size, info.mode = len(data), 0o644
                    archive.addfile(info, io.BytesIO(data))
    return name
