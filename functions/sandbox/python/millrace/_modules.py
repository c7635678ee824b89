"""Which module a file is, and from which directory it is imported."""

import os
import sys


_PROJECT = ("pyproject.toml", "setup.cfg", "setup.py", ".git")


def place(file):
    """Return (root, name) of a file: the directory that belongs on sys.path, and the dotted name from there.

    The root is above all packages that hold the file. The src of a project is one
    too, so that packages without __init__.py have their names.
    """
    directory, base = os.path.split(os.path.abspath(file))
    names = [os.path.splitext(base)[0]]
    if names == ["__init__"]:
        names = []
    while os.path.isfile(os.path.join(directory, "__init__.py")):
        directory, base = os.path.split(directory)
        names.insert(0, base)
    above, outer = directory, []
    while os.path.basename(above).isidentifier():
        parent, base = os.path.split(above)
        if base == "src" and (parent == os.getcwd() or any(os.path.exists(os.path.join(parent, name)) for name in _PROJECT)):
            return above, ".".join([*outer, *names])
        outer.insert(0, base)
        above = parent
    return directory, ".".join(names)


def name_of(module):
    """Return the name that the service imports a module by; __main__ has one too."""
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return spec.name.removesuffix(".__main__")
    return place(getattr(main, "__file__", None) or "flow.py")[1]


def root_of(module):
    """Return the directory that a module is imported from; the working directory if it has no file."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return place(file)[0] if file and os.path.isfile(file) else os.getcwd()
