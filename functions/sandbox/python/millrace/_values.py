"""Encodes values of tasks as JSON; ``_typed`` decodes them.

Besides JSON types, these are encoded: date, datetime and time (ISO 8601),
timedelta (seconds), Decimal, UUID, Path (text), bytes (base64), Enum (its value),
dataclasses and pydantic models (objects), sets (lists, sorted if possible),
arrays and scalars of numpy, and File (a reference). NaN becomes null, and a
warning in the task's log says where.
"""

import json

from .errors import ArtifactSerializationError

MAX_DEPTH = 100
MAX_BYTES = 256 << 20

_PLAIN = frozenset((str, int, bool, type(None)))
_INF = float("inf")


def encode(value, what="the output", warn=None):
    """Return value as compact JSON in UTF-8, or raise ArtifactSerializationError.

    Infinities, keys that are not strings, nesting over 100 levels, lone
    surrogates, cycles and types that are not listed above are rejected; the message
    says where. warn is called with a message if there are NaN; if None, they are rejected.
    """
    nans = []
    value = _plain(value, what, 0, nans)
    if nans:
        rest = f" and {len(nans) - 1} more places" if len(nans) > 1 else ""
        if warn is None:
            raise ArtifactSerializationError(f"{nans[0]} is nan, which JSON cannot hold")
        warn(f"{nans[0]}{rest}: NaN became null, for JSON has none")
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ArtifactSerializationError(f"{what} has text that is not valid Unicode: {error.reason}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ArtifactSerializationError(f"{what} is not JSON: {error}") from None
    if len(data) > MAX_BYTES:
        raise ArtifactSerializationError(
            f"{what} is {len(data)} bytes of JSON; the limit is {MAX_BYTES} (256 MB): "
            "write it to a file and return ctx.save_file(path)"
        )
    return data


def _plain(value, where, depth, nans):
    """Convert value to JSON types; a value that has no others is returned itself."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float or isinstance(value, float):
        if value != value:
            nans.append(where)
            return None
        if value in (_INF, -_INF):
            raise ArtifactSerializationError(f"{where} is {value!r}, which JSON cannot hold")
        return value
    if depth >= MAX_DEPTH:
        raise ArtifactSerializationError(f"{where} is nested more than {MAX_DEPTH} levels deep, or contains itself")
    if isinstance(value, dict):
        return _object(value, where, depth, nans)
    if isinstance(value, (list, tuple)):
        return _array(value, where, depth, nans)
    made = _other(value, kind, where)
    # One level deeper, so that dataclasses that refer to each other end.
    return made if type(made) in _PLAIN else _plain(made, where, depth + 1, nans)


def _object(value, where, depth, nans):
    changed = None
    for key, item in value.items():
        if not isinstance(key, str):
            raise ArtifactSerializationError(f"{where} has the key {key!r}; keys of JSON objects are strings")
        if type(item) not in _PLAIN:
            made = _plain(item, f"{where}.{key}", depth + 1, nans)
            if made is not item:
                if changed is None:
                    changed = dict(value)
                changed[key] = made
    return value if changed is None else changed


def _array(value, where, depth, nans):
    # Long lists of scalars are common: one pass in C instead of a call for each element.
    if _PLAIN.issuperset(map(type, value)):
        return value
    changed = None
    for index, item in enumerate(value):
        if type(item) not in _PLAIN:
            made = _plain(item, f"{where}[{index}]", depth + 1, nans)
            if made is not item:
                if changed is None:
                    changed = list(value)
                changed[index] = made
    return value if changed is None else changed


def _other(value, kind, where):
    """Return the JSON representation of a value of another type."""
    if isinstance(value, (str, int)):  # subclasses, which json.dumps takes; of an Enum its value
        return value.value if hasattr(kind, "__members__") else str(value) if isinstance(value, str) else int(value)
    for cls in kind.__mro__:
        convert = _CONVERTERS.get((cls.__module__, cls.__qualname__))
        if convert is not None:
            return convert(value)
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in _fields(kind)}
    if hasattr(kind, "__millrace_json__"):
        return value.__millrace_json__()
    if kind.__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
        made = value.tolist()
        if type(made) is not kind:
            return made
    if callable(getattr(kind, "model_dump", None)):
        return value.model_dump()
    raise ArtifactSerializationError(
        f"{where} is of type {kind.__module__}.{kind.__qualname__}, which is not JSON: return its data, or ctx.save_file(path) of a file"
    )


def _fields(kind):
    return [name for name, field in kind.__dataclass_fields__.items() if getattr(field._field_type, "name", "") == "_FIELD"]


def _base64(value):
    import base64

    return base64.b64encode(value).decode()


def _sorted(value):
    try:
        return sorted(value)
    except TypeError:
        return list(value)


def _iso(value):
    return value.isoformat()


# By name, so that these modules are only imported if used.
_CONVERTERS = {
    ("datetime", "date"): _iso, ("datetime", "time"): _iso, ("datetime", "timedelta"): lambda value: value.total_seconds(),
    ("decimal", "Decimal"): str, ("uuid", "UUID"): str, ("pathlib", "PurePath"): str, ("pathlib._local", "PurePath"): str,
    ("builtins", "bytes"): _base64, ("builtins", "bytearray"): _base64, ("builtins", "memoryview"): _base64,
    ("builtins", "set"): _sorted, ("builtins", "frozenset"): _sorted, ("enum", "Enum"): lambda value: value.value,
}
