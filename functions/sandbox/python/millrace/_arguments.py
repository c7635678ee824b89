"""Fills the arguments of tasks by name and converts them to their annotated types."""

from . import _typed
from .errors import TaskFailedError

POSITIONAL_ONLY, NORMAL, KEYWORD_ONLY = "positional", "normal", "keyword"


def plain(function):
    """Return the function behind a decorated task, or function itself."""
    return getattr(function, "__millrace_function__", function)


def parameters(function):
    """Return [(name, kind, has_default)] of a function, without *args and **kwargs."""
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__") or hasattr(function, "__signature__"):
        return _inspected(function)
    count = code.co_argcount
    names = code.co_varnames[: count + code.co_kwonlyargcount]
    first_default = count - len(function.__defaults__ or ())
    keyword_defaults = function.__kwdefaults__ or {}
    result = []
    for i, name in enumerate(names):
        if i < code.co_posonlyargcount:
            result.append((name, POSITIONAL_ONLY, i >= first_default))
        elif i < count:
            result.append((name, NORMAL, i >= first_default))
        else:
            result.append((name, KEYWORD_ONLY, name in keyword_defaults))
    return result


def _inspected(function):
    # inspect is slow to import, and only wrapped functions and callables need it.
    import inspect

    kinds = {
        inspect.Parameter.POSITIONAL_ONLY: POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD: NORMAL,
        inspect.Parameter.KEYWORD_ONLY: KEYWORD_ONLY,
    }
    return [
        (p.name, kinds[p.kind], p.default is not p.empty)
        for p in inspect.signature(function).parameters.values()
        if p.kind in kinds
    ]


def fill(wanted, sources, task_name, hints=None, has_files=False):
    """Return (args, kwargs) for the parameters ``wanted``.

    ``sources`` are functions name -> (found, value), called in order. A parameter
    that none of them knows keeps its default; without one, TaskFailedError. Values are
    converted to the types in ``hints`` {name: annotation}; has_files means that they
    may contain references to files.
    """
    hints = hints or {}
    args, kwargs = [], {}
    skipped = None
    for name, kind, has_default in wanted:
        for source in sources:
            found, value = source(name)
            if found:
                break
        else:
            if not has_default:
                raise TaskFailedError(
                    f"task {task_name!r} needs the argument {name!r}, but no upstream task and no run parameter has that name"
                )
            skipped = skipped or name
            continue
        value = _typed.restore(value, hints.get(name), name, task_name, has_files)
        if kind == POSITIONAL_ONLY:
            if skipped:
                raise TaskFailedError(
                    f"task {task_name!r}: the positional-only argument {name!r} is given while {skipped!r} before it is not"
                )
            args.append(value)
        else:
            kwargs[name] = value
    return args, kwargs


def from_mapping(values):
    """Return a source that looks names up in a dict."""

    def source(name):
        return (True, values[name]) if name in values else (False, None)

    return source


def from_tasks(outputs, load):
    """Return a source over outputs by task name; '-' in a task's name is '_' in an argument's."""
    renamed = {name.replace("-", "_"): name for name in outputs if "-" in name}

    def source(name):
        task = name if name in outputs else renamed.get(name)
        return (False, None) if task is None else (True, load(outputs[task]))

    return source


def call(function, args, kwargs):
    """Call function; if it returns a coroutine, run it until it completes."""
    result = function(*args, **kwargs)
    if type(result).__name__ == "coroutine" and hasattr(result, "cr_frame"):
        import asyncio

        try:
            result = asyncio.run(result)
        except BaseException as error:
            # The frames of the event loop do not help the task's author.
            trace = error.__traceback__.tb_next
            while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("asyncio."):
                trace = trace.tb_next
            raise error.with_traceback(trace or error.__traceback__)
    return result
