"""Imports the flow that a command line names."""

import contextlib
import importlib
import os
import sys

from . import _modules
from .errors import FlowDefinitionError


def load(target):
    """Import flow.py[:name] or package.module[:name] and return its flow.

    Its output is redirected to standard error. FlowDefinitionError if there is
    no such file, module or flow, or several flows and no name.
    """
    from .flows import Flow

    path, _, name = target.partition(":")
    with quiet_stdout():
        module = imported(path)
    flows = {key: value for key, value in vars(module).items() if isinstance(value, Flow)}
    if name:
        found = [f for key, f in flows.items() if name in (key, f.name)]
    else:
        found = list(flows.values())
    if len(set(map(id, found))) != 1:
        if not flows:
            raise FlowDefinitionError(f"{path} has no flow: a function with @flow")
        what = f"{'several flows' if found else 'no flow'} {name!r}" if name else "several flows"
        raise FlowDefinitionError(f"{path} has {what}: name one of: {', '.join(f'{path}:{key}' for key in sorted(flows))}")
    return found[0]


def imported(path):
    """Import a file, or the module of a name, whose root is added to sys.path; FlowDefinitionError if it has no name or there is none."""
    if os.path.isfile(path):
        root, name = _modules.locate(path)
    elif path.endswith(".py") or os.sep in path or not all(part.isidentifier() for part in path.split(".")):
        raise FlowDefinitionError(f"there is no file {path!r}")
    else:
        root, name = next((d for d in (os.getcwd(), os.path.join(os.getcwd(), "src")) if _holds(d, path)), os.getcwd()), path
    if not all(part.isidentifier() for part in name.split(".")):
        raise FlowDefinitionError(f"{path!r} cannot be imported: {name!r} is no name of a module; use letters, digits and _")
    sys.path.insert(0, root)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise FlowDefinitionError(f"there is no module {name!r} below {root}") from None
        raise
    if os.path.isfile(path) and not os.path.samefile(getattr(module, "__file__", None) or os.devnull, path):
        raise FlowDefinitionError(f"{path!r} cannot be imported: {name!r} is the name of another module ({getattr(module, '__file__', 'built in')})")
    return module


def _holds(directory, name):
    path = os.path.join(directory, *name.split("."))
    return os.path.isfile(path + ".py") or os.path.isdir(path)


@contextlib.contextmanager
def quiet_stdout():
    """Redirect standard output to standard error while the context is open, also that of C code and subprocesses."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # it is closed
        with contextlib.redirect_stdout(sys.stderr):
            yield
        return
    try:
        os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
