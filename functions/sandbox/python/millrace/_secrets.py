"""Which secrets a task reads: the service hands a task those that its config names."""

import os
import re

from ._arguments import plain
from .errors import ExpressionError, FlowDefinitionError

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def checked(names):
    """Return the names of secrets that a task was given, as a list."""
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise FlowDefinitionError(f"{name!r} is no name of a secret: letters, digits and _, from a letter or _, 128 at most")
    return names


def named(function):
    """Return the names that a function asks ctx.secret for, as far as they stand in it."""
    code = getattr(function, "__code__", None)
    return sorted(_scan(code)) if code is not None else []


def _scan(code):
    import dis  # at registration alone

    found = set()
    before = last = None
    for instruction in dis.get_instructions(code):
        if (
            instruction.opname == "LOAD_CONST" and isinstance(instruction.argval, str) and last is not None and before is not None
            and last.opname in ("LOAD_ATTR", "LOAD_METHOD") and last.argval == "secret" and before.argval == "ctx"
        ):
            found.add(instruction.argval)
        if instruction.opname not in ("PUSH_NULL", "CACHE", "RESUME"):
            before, last = last, instruction
    for constant in code.co_consts:  # nested functions and comprehensions
        if hasattr(constant, "co_code"):
            found |= _scan(constant)
    return found


def of_task(entry):
    """Return the names of the secrets that a task of a flow is handed."""
    return sorted({*entry.options["secrets"], *named(plain(entry.source))})


class Environment(dict):
    """Secrets of a local run: the environment's MILLRACE_SECRET_<NAME>; those named, or any."""

    def __init__(self, names=()):
        super().__init__()
        for name in names:
            self[name] = self[name]  # as in the service, one that is not there fails the task at its start

    def __missing__(self, name):
        variable = "MILLRACE_SECRET_" + name.upper()
        if variable not in os.environ:
            raise ExpressionError(f"config: there is no secret named {name}: a local run takes it from the environment variable {variable}")
        return os.environ[variable]

    def __contains__(self, name):
        return "MILLRACE_SECRET_" + str(name).upper() in os.environ


def config(given, names):
    """Return a task's config with what resolves the secrets of these names."""
    if not names:
        return given
    given = dict(given or {})
    given["secrets"] = {**given.get("secrets", {}), **{name: "${{ secrets.%s }}" % name for name in names}}
    return given
