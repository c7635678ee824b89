"""Strict JSON: what a task returns must be JSON, exactly."""

import json

from .errors import ArtifactSerializationError

MAX_DEPTH = 100
MAX_BYTES = 256 << 20

_PLAIN = frozenset((str, int, bool, type(None)))
_INF = float("inf")


def encode(value, what="the output"):
    """Return value as compact JSON in UTF-8, or raise ArtifactSerializationError.

    Tuples become arrays. NaN and infinities, keys that are not strings, nesting
    over 100 levels, lone surrogates, cycles and any other type are refused, and
    the message names the place.
    """
    _check(value, what, 0)
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
            "write it to object storage and return where it is"
        )
    return data


def _check(value, where, depth):
    kind = type(value)
    if kind in _PLAIN:
        return
    if isinstance(value, float):
        if value != value or value in (_INF, -_INF):
            raise ArtifactSerializationError(f"{where} is {value!r}, which JSON cannot hold")
        return
    if isinstance(value, (str, int)):
        return
    if depth >= MAX_DEPTH:
        raise ArtifactSerializationError(f"{where} is nested more than {MAX_DEPTH} levels deep, or contains itself")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ArtifactSerializationError(f"{where} has the key {key!r}; keys of JSON objects are strings")
            if type(item) not in _PLAIN:
                _check(item, f"{where}.{key}", depth + 1)
        return
    if isinstance(value, (list, tuple)):
        # Long lists of scalars are common: one pass in C instead of a call each.
        if _PLAIN.issuperset(map(type, value)):
            return
        for index, item in enumerate(value):
            if type(item) not in _PLAIN:
                _check(item, f"{where}[{index}]", depth + 1)
        return
    raise ArtifactSerializationError(f"{where} is of type {kind.__module__}.{kind.__qualname__}, which is not JSON")
