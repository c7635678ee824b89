"""Names of modules and the directories that they are imported from."""

import os
import sys


_PROJECT = ("pyproject.toml", "setup.cfg", "setup.py", ".git")


def locate(file):
    """Return (root, name) of a file: the directory to add to sys.path, and the module's dotted name below it.

    The root is above all packages that contain the file. The src directory of a project
    is a root, too, so that packages without __init__.py have their names.
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
    """Return the name under which the service imports a module, also for __main__."""
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return spec.name.removesuffix(".__main__")
    return locate(getattr(main, "__file__", None) or "flow.py")[1]


def root_of(module):
    """Return the directory that a module is imported from; the working directory if it has no file."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return locate(file)[0] if file and os.path.isfile(file) else os.getcwd()
