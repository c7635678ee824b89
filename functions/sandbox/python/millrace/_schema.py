"""The JSON Schema of a flow's parameters: derived from its signature, and validated."""

import re

from . import _values
from .errors import FlowDefinitionError

_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object", tuple: "array", type(None): "null",
               set: "array", frozenset: "array"}
_NAMED = {
    ("datetime", "datetime"): {"type": "string", "format": "date-time"}, ("datetime", "date"): {"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
    ("datetime", "time"): {"type": "string", "format": "time"}, ("datetime", "timedelta"): {"type": "number"},
    ("decimal", "Decimal"): {"type": ["string", "number"]}, ("uuid", "UUID"): {"type": "string", "format": "uuid"},
    ("pathlib", "PurePath"): {"type": "string"}, ("pathlib._local", "PurePath"): {"type": "string"},
    ("builtins", "bytes"): {"type": "string", "contentEncoding": "base64"}, ("builtins", "bytearray"): {"type": "string", "contentEncoding": "base64"},
}


def of(function):
    """Return the schema of a function's arguments. It does not allow additional ones."""
    import inspect
    import typing

    try:
        hints = typing.get_type_hints(function)
    except Exception:
        hints = {}
    properties, required, closed = {}, [], True
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            closed = closed and parameter.kind != parameter.VAR_KEYWORD
            continue
        hint = hints.get(parameter.name)
        if parameter.default is None and hint is not None:
            hint = typing.Optional[hint]  # as get_type_hints reads it before Python 3.11
        schema = of_type(hint)
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        else:
            schema["default"] = _default(parameter)
            if fault := _fault(parameter.name, schema["default"], schema):
                raise FlowDefinitionError(f"a run without {parameter.name} could not start: {fault}")
        properties[parameter.name] = schema
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if closed:
        schema["additionalProperties"] = False
    return schema


def _default(parameter):
    import json

    try:
        return json.loads(_values.encode(parameter.default, f"the default of the parameter {parameter.name}"))
    except Exception as error:
        raise FlowDefinitionError(str(error)) from None


def of_type(hint):
    """Return the schema of a type hint, as a new dict; {} for an unknown one."""
    import types
    import typing

    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return of_type(arguments[0])
    if origin is typing.Union or origin is getattr(types, "UnionType", None):
        schemas = [of_type(a) for a in arguments]
        if all(list(s) == ["type"] and isinstance(s["type"], str) for s in schemas):
            return {"type": [s["type"] for s in schemas]}
        return {"anyOf": schemas} if all(schemas) else {}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    kind = origin or hint
    if not isinstance(kind, type):
        return of_type(hint.__supertype__) if hasattr(hint, "__supertype__") else {}
    if arguments and kind in (list, set, frozenset) or kind is tuple and arguments[1:] == (Ellipsis,):
        items = of_type(arguments[0])
        return {"type": "array", "items": items} if items else {"type": "array"}
    if kind is dict and arguments:
        values = of_type(arguments[1])
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    if kind in _JSON_TYPES:
        return {"type": _JSON_TYPES[kind]}
    if hasattr(kind, "__members__"):
        import json

        return {"enum": json.loads(_values.encode([member.value for member in kind]))}
    for cls in kind.__mro__:
        if named := _NAMED.get((cls.__module__, cls.__qualname__)):
            return dict(named)
    return {"type": "object"} if hasattr(kind, "__dataclass_fields__") else {}


_TYPES = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and v == int(v),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
    "null": lambda v: v is None,
}


def check(where, value, schema):
    """Raise an error if a value violates the common part of JSON Schema; the service checks the rest.

    type, enum, const, anyOf, items, properties, required, additionalProperties,
    minimum, maximum, minLength, maxLength, pattern, minItems and maxItems.
    """
    if fault := _fault(where, value, schema):
        raise FlowDefinitionError(fault)


def _fault(where, value, schema):
    if not isinstance(schema, dict):
        return f"the parameter {where} is not allowed" if schema is False else None
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_TYPES[kind](value) for kind in kinds if kind in _TYPES):
        return f"the parameter {where!r} is {value!r}, not of type {' or '.join(kinds)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"the parameter {where!r} is {value!r}, not one of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        return f"the parameter {where!r} is {value!r}, not {schema['const']!r}"
    if "anyOf" in schema:
        faults = [_fault(where, value, s) for s in schema["anyOf"]]
        if all(faults):
            return faults[0]
    return _size_fault(where, value, schema) or _inner_fault(where, value, schema)


def _size_fault(where, value, schema):
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and ("minimum" in schema and value < schema["minimum"] or "maximum" in schema and value > schema["maximum"]):
        return f"the parameter {where!r} is {value!r}, outside of {schema.get('minimum', '')} to {schema.get('maximum', '')}"
    for kind, unit in ((str, "Length"), (list, "Items")):
        if isinstance(value, kind) and not schema.get("min" + unit, 0) <= len(value) <= schema.get("max" + unit, len(value)):
            return f"the parameter {where!r} has a length of {len(value)}, which is not allowed"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        return f"the parameter {where!r} is {value!r}, which does not match {schema['pattern']!r}"
    return None


def _inner_fault(where, value, schema):
    if isinstance(value, list) and "items" in schema:
        return next(filter(None, (_fault(f"{where}[{i}]", item, schema["items"]) for i, item in enumerate(value))), None)
    if not isinstance(value, dict):
        return None
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    if missing := [name for name in schema.get("required", []) if name not in value]:
        return f"the parameter {where!r} lacks {', '.join(map(repr, missing))}"
    for name, item in value.items():
        if fault := _fault(f"{where}.{name}", item, properties.get(name, others)):
            return fault
    return None
