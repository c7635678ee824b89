"""Decodes JSON to the annotated types of arguments.

The types are those that ``_values`` encodes, alone and within list, dict, tuple,
set, Optional, Union, TypedDict, NamedTuple and dataclasses. Other annotations
change nothing and check nothing. A File needs no annotation.
"""

import sys

from .errors import TaskFailedError

# Annotations that JSON already satisfies.
_AS_IT_IS = frozenset((str, int, bool, list, dict, object, type(None)))
_PLAIN_NAMES = frozenset(("str", "int", "bool", "list", "dict", "object", "None", "Any", "Context", "millrace.Context"))


def hints(function):
    """Return {argument: annotation} of the arguments that may have to be converted."""
    function = getattr(function, "__millrace_function__", function)
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    given = {name: hint for name, hint in (getattr(function, "__annotations__", None) or {}).items() if name != "return"}
    if not any(map(_converts, given.values())):
        return {}
    import typing

    try:
        resolved = typing.get_type_hints(function, include_extras=True)
    except Exception:
        # A name is only imported for type checkers; the other annotations are still used.
        resolved = {name: _resolved(function, h) for name, h in given.items()}
    return {name: hint for name, hint in resolved.items() if name != "return" and _converts(hint)}


def _converts(hint):
    if isinstance(hint, str):
        return hint not in _PLAIN_NAMES
    return not (isinstance(hint, type) and (hint in _AS_IT_IS or hint.__module__ == "millrace._context"))


def _resolved(function, hint):
    import typing

    if not isinstance(hint, str):
        return hint
    holder = type("_Holder", (), {"__annotations__": {"value": hint}, "__module__": function.__module__})
    try:
        return typing.get_type_hints(holder, vars(sys.modules.get(function.__module__)), include_extras=True)["value"]
    except Exception:
        return object


def restore(value, hint, name, task_name, has_files=False):
    """Convert the argument ``name`` of a task to its annotated type; None is no annotation.

    has_files means that the value may contain references to files. TaskFailedError,
    which names the argument, if the value does not fit the annotation.
    """
    if has_files:
        value = files(value)
    if hint is None:
        return value
    try:
        return convert(value, hint, name)
    except _Mismatch as error:
        raise TaskFailedError(f"task {task_name!r}: the argument {error}") from None


def files(value):
    """Replace references to files in a JSON value by File objects."""
    kind = type(value)
    if kind is dict:
        if len(value) == 1 and "$file" in value:
            from ._files import File

            return File.from_json(value)
        return {key: files(item) for key, item in value.items()}
    if kind is list:
        return [files(item) for item in value]
    return value


class _Mismatch(Exception):
    pass


def convert(value, hint, where):
    """Convert a JSON value to a type hint; _Mismatch if that is impossible."""
    if isinstance(hint, type) and not hasattr(hint, "__origin__"):
        return _class(value, hint, where)
    import typing

    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return convert(value, arguments[0], where)
    if hasattr(hint, "__supertype__"):
        return convert(value, hint.__supertype__, where)
    if origin is typing.Union or type(hint).__name__ == "UnionType":
        return _union(value, arguments, where)
    if not isinstance(origin, type):
        return value
    return _generic(value, origin, arguments, where)


def _union(value, arguments, where):
    if value is None and type(None) in arguments:
        return None
    faults = []
    # Exact types first; for a union of date and str a text stays a text only if it is not a date.
    for hint in sorted((a for a in arguments if a is not type(None)), key=lambda a: a in _AS_IT_IS or a is float):
        if hint in _AS_IT_IS and not isinstance(value, hint):
            continue
        try:
            return convert(value, hint, where)
        except _Mismatch as error:
            faults.append(error)
    if faults and not any(a in _AS_IT_IS for a in arguments if a is not type(None)):
        raise faults[0]
    return value


def _generic(value, origin, arguments, where):
    import collections.abc as abc

    if issubclass(origin, tuple) and isinstance(value, list):
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(convert(item, arguments[0], f"{where}[{i}]") for i, item in enumerate(value))
        if arguments and len(arguments) != len(value):
            raise _Mismatch(f"{where!r} has {len(value)} elements, not {len(arguments)}")
        return tuple(convert(item, hint, f"{where}[{i}]") for i, (item, hint) in enumerate(zip(value, arguments)))
    if issubclass(origin, (set, frozenset, abc.Set)) and isinstance(value, list):
        items = (convert(item, arguments[0], f"{where}[{i}]") for i, item in enumerate(value))
        return frozenset(items) if origin is frozenset else set(items)
    if issubclass(origin, abc.Mapping) and isinstance(value, dict):
        if len(arguments) < 2:
            return value
        key, item = arguments
        return {_key(k, key, where): convert(v, item, f"{where}.{k}") for k, v in value.items()}
    if issubclass(origin, abc.Iterable) and isinstance(value, list) and arguments:
        if arguments[0] in _AS_IT_IS:
            return value
        return [convert(item, arguments[0], f"{where}[{i}]") for i, item in enumerate(value)]
    if hasattr(origin, "__dataclass_fields__"):
        return _class(value, origin, where)
    return value


def _key(key, hint, where):
    if hint is int:
        try:
            return int(key)
        except ValueError:
            raise _Mismatch(f"{where!r} has the key {key!r}, which is no int") from None
    return key if hint in _AS_IT_IS else convert(key, hint, f"{where}.{key}")


def _class(value, kind, where):
    if kind in _AS_IT_IS or kind.__module__ == "typing":
        return value
    if kind is float:
        # NaN was encoded as null.
        return float("nan") if value is None else float(value) if type(value) is int else value
    if not hasattr(kind, "__total__") and not getattr(kind, "_is_protocol", False) and isinstance(value, kind):
        return value
    for cls in kind.__mro__:
        restorer = _RESTORERS.get((cls.__module__, cls.__qualname__))
        if restorer is not None:
            break
    else:
        restorer = _structure(kind)
    if restorer is None:
        return value
    try:
        return restorer(value, kind)
    except _Mismatch:
        raise
    except Exception as error:
        raise _Mismatch(f"{where!r} is {_short(value)}, which is no {kind.__name__}: {error}") from None


def _structure(kind):
    if hasattr(kind, "__dataclass_fields__"):
        return _dataclass
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _named_tuple
    if issubclass(kind, dict) and hasattr(kind, "__total__"):
        return _typed_dict
    if callable(getattr(kind, "model_validate", None)):
        return lambda value, kind: kind.model_validate(value)
    if kind.__module__.partition(".")[0] == "numpy":
        return _numpy
    return None


def _numpy(value, kind):
    if kind.__name__ == "ndarray":
        import numpy

        return numpy.asarray(value)
    return kind("nan" if value is None else value)


def _fields_of(kind):
    import typing

    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception:
        return {}


def _dataclass(value, kind):
    if not isinstance(value, dict):
        raise TypeError("it takes an object")
    known = _fields_of(kind)
    unknown = sorted(set(value) - set(kind.__dataclass_fields__))
    if unknown:
        raise TypeError(f"it has no field {', '.join(unknown)}")
    made = {name: convert(item, known.get(name, object), name) for name, item in value.items()}
    later = {name: made.pop(name) for name, field in kind.__dataclass_fields__.items() if not field.init and name in made}
    result = kind(**made)
    for name, item in later.items():
        object.__setattr__(result, name, item)
    return result


def _named_tuple(value, kind):
    known = _fields_of(kind)
    return kind(*(convert(item, known.get(name, object), name) for name, item in zip(kind._fields, value, strict=True)))


def _typed_dict(value, kind):
    if not isinstance(value, dict):
        raise TypeError("it takes an object")
    known = _fields_of(kind)
    return {name: convert(item, known[name], name) if name in known else item for name, item in value.items()}


def _bytes(value, kind):
    import base64

    return kind(base64.b64decode(value, validate=True))


def _timedelta(value, kind):
    return kind(seconds=value)


def _iso(value, kind):
    if isinstance(value, str) and value.endswith("Z") and sys.version_info < (3, 11):
        value = value[:-1] + "+00:00"
    return kind.fromisoformat(value)


def _number(value, kind):
    return kind(str(value)) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else _fail()


def _text(value, kind):
    return kind(value) if isinstance(value, str) else _fail()


def _fail():
    raise TypeError("it takes text")


def _collection(value, kind):
    return kind(value) if isinstance(value, list) else _fail_list()


def _fail_list():
    raise TypeError("it takes a list")


def _enum(value, kind):
    try:
        return kind(value)
    except ValueError:
        for member in kind:  # a value that JSON has otherwise, a date for instance
            if not isinstance(member.value, (str, int, float)):
                try:
                    if convert(value, type(member.value), "") == member.value:
                        return member
                except _Mismatch:
                    pass
        raise


def _short(value):
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


_RESTORERS = {
    ("datetime", "date"): _iso, ("datetime", "time"): _iso, ("datetime", "timedelta"): _timedelta, ("decimal", "Decimal"): _number,
    ("uuid", "UUID"): _text, ("pathlib", "PurePath"): _text, ("pathlib._local", "PurePath"): _text,
    ("builtins", "bytes"): _bytes, ("builtins", "bytearray"): _bytes, ("enum", "Enum"): _enum,
    ("builtins", "set"): _collection, ("builtins", "frozenset"): _collection,
    ("millrace._files", "File"): lambda value, kind: kind.from_json(value),
}
# Subclasses of tuple, list and other builtins are not created here; plain tuples are.
_RESTORERS["builtins", "tuple"] = lambda value, kind: tuple(value) if kind is tuple and isinstance(value, list) else _named_tuple(value, kind)
