"""The metadata and files of the distributions of the package millrace."""

import os
import re

NAME = "millrace"
REQUIRES_PYTHON = ">=3.10"
SUMMARY = "Workflows as Python functions: authoring, local runs and a client of the Millrace service"
LICENSE = "LicenseRef-Proprietary"
KEYWORDS = "workflow,orchestration,dag,pipeline,scheduler"
CLASSIFIERS = (
    "Development Status :: 4 - Beta",
    "Environment :: Console",
    "Intended Audience :: Developers",
    "Operating System :: MacOS",
    "Operating System :: POSIX :: Linux",
    "Programming Language :: Python :: 3",
    "Programming Language :: Python :: 3 :: Only",
    "Programming Language :: Python :: 3.10",
    "Programming Language :: Python :: 3.11",
    "Programming Language :: Python :: 3.12",
    "Programming Language :: Python :: 3.13",
    "Typing :: Typed",
)
ENTRY_POINTS = "[console_scripts]\nmillrace = millrace.__main__:main\n"

# The folder of pyproject.toml, and the package in it.
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGE = os.path.join(ROOT, NAME)
_SUFFIXES = (".py", ".pyi", ".typed")


def version():
    """Return the version that millrace/_version.py names, without importing the package."""
    text = read(os.path.join(PACKAGE, "_version.py")).decode()
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if not found:
        raise ValueError("millrace/_version.py has no line __version__ = \"…\"")
    return found[1]


def core_metadata():
    """Return the METADATA of a wheel, which is the PKG-INFO of a source distribution (bytes)."""
    fields = [
        ("Metadata-Version", "2.4"), ("Name", NAME), ("Version", version()), ("Summary", SUMMARY), ("Keywords", KEYWORDS),
        ("License-Expression", LICENSE), ("Requires-Python", REQUIRES_PYTHON),
        *(("Classifier", c) for c in CLASSIFIERS), ("Description-Content-Type", "text/markdown"),
    ]
    head = "".join(f"{name}: {value}\n" for name, value in fields)
    return head.encode() + b"\n" + read(os.path.join(ROOT, "README.md"))


def package_files():
    """Return (name in the distribution, path) of each file of the package, sorted by name."""
    found = []
    for parent, directories, files in os.walk(PACKAGE):
        directories[:] = [d for d in directories if d != "__pycache__" and not d.startswith(".")]
        for file in files:
            if file.endswith(_SUFFIXES):
                path = os.path.join(parent, file)
                found.append((os.path.relpath(path, ROOT).replace(os.sep, "/"), path))
    return sorted(found)


def read(path):
    with open(path, "rb") as file:
        return file.read()
