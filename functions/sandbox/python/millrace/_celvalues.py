"""What the operators, functions and macros of CEL do; _cel.py reads the text."""

import re

from .errors import ExpressionError


def lookup(names, name):
    if name not in names:
        raise ExpressionError(f"there is no {name!r}")
    return names[name]


def select(value, name):
    if not isinstance(value, dict):
        raise ExpressionError(f"{kind(value)} has no field {name!r}")
    if name not in value:
        raise ExpressionError(f"no such key: {name!r}")
    return value[name]


def field(node, name):
    return lambda names: select(node(names), name)


def index(node, index):
    def run(names):
        value, at = node(names), index(names)
        if isinstance(value, list):
            if isinstance(at, float) and at.is_integer():
                at = int(at)
            if isinstance(at, bool) or not isinstance(at, int):
                raise ExpressionError("the index of a list is a whole number")
            if not 0 <= at < len(value):
                raise ExpressionError(f"the index {at} is outside of a list of {len(value)}")
            return value[at]
        return select(value, at)

    return run


def has(node, names):
    try:
        node(names)
    except ExpressionError:
        return False
    return True


def boolean(value):
    if not isinstance(value, bool):
        raise ExpressionError(f"{kind(value)} is neither true nor false")
    return value


def number(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ExpressionError(f"{kind(value)} is not a number")
    return value


def kind(value):
    kinds = {bool: "a bool", int: "a number", float: "a number", str: "a string", list: "a list", dict: "a map", type(None): "null"}
    return kinds.get(type(value), type(value).__name__)


def logic(left, right, decisive):
    # As in CEL, a decisive side wins over an error on the other.
    def run(names):
        try:
            if boolean(left(names)) is decisive:
                return decisive
        except ExpressionError:
            if boolean(right(names)) is decisive:
                return decisive
            raise
        return boolean(right(names))

    return run


def binary(function, left, right):
    return lambda names: function(left(names), right(names))


def _equal(a, b):
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    return a == b


def _ordered(compare):
    def run(a, b):
        if isinstance(a, str) != isinstance(b, str) or not isinstance(a, (str, int, float)) or not isinstance(b, (str, int, float)):
            raise ExpressionError(f"{kind(a)} and {kind(b)} have no order")
        return compare(a, b)

    return run


def _add(a, b):
    if isinstance(a, (str, list)) and type(a) is type(b):
        return a + b
    return number(a) + number(b)


def _divide(a, b):
    a, b = number(a), number(b)
    if isinstance(a, float) or isinstance(b, float):
        if b == 0:
            raise ExpressionError("division by zero")
        return a / b
    if b == 0:
        raise ExpressionError("division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a, b):
    if isinstance(number(a), float) or isinstance(number(b), float):
        raise ExpressionError("% takes whole numbers")
    return a - b * _divide(a, b)


def _contained(a, b):
    if isinstance(b, list):
        return any(_equal(a, item) for item in b)
    if isinstance(b, dict):
        return a in b
    raise ExpressionError(f"nothing is in {kind(b)}")


OPERATORS = {
    "==": _equal,
    "!=": lambda a, b: not _equal(a, b),
    "<": _ordered(lambda a, b: a < b),
    "<=": _ordered(lambda a, b: a <= b),
    ">": _ordered(lambda a, b: a > b),
    ">=": _ordered(lambda a, b: a >= b),
    "in": _contained,
    "+": _add,
    "-": lambda a, b: number(a) - number(b),
    "*": lambda a, b: number(a) * number(b),
    "/": _divide,
    "%": _remainder,
}


def macro(name, target, variable, bodies):
    def run(names):
        values = target(names)
        if isinstance(values, dict):
            values = list(values)
        if not isinstance(values, list):
            raise ExpressionError(f"{name} is for lists and maps, not for {kind(values)}")
        scopes = [{**names, variable: value} for value in values]
        if name == "map":
            return [bodies[-1](s) for s in scopes if len(bodies) == 1 or boolean(bodies[0](s))]
        tests = (boolean(bodies[0](s)) for s in scopes)
        if name == "filter":
            return [value for value, passes in zip(values, tests) if passes]
        if name == "all":
            return all(tests)
        if name == "exists":
            return any(tests)
        return sum(tests) == 1

    return run


def call(function, arguments, name):
    def run(names):
        values = [argument(names) for argument in arguments]
        try:
            return function(*values)
        except (TypeError, ValueError, AttributeError, OverflowError, re.error):
            raise ExpressionError(f"{name} does not take {', '.join(map(kind, values)) or 'nothing'}") from None

    return run


def unknown(name):
    """Return the node of a function that only the service has."""

    def run(_names):
        raise ExpressionError(f"the function {name!r} needs the service")

    return run


def _size(value):
    if not isinstance(value, (str, list, dict)):
        raise TypeError
    return len(value)


def text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (str, int, float)):
        raise TypeError
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _bool(value):
    if value in ("true", "false"):
        return value == "true"
    return boolean(value)


FUNCTIONS = {"size": _size, "string": text, "int": int, "double": float, "bool": _bool}
METHODS = {
    "size": _size,
    "contains": lambda text, part: str.__contains__(text, part),
    "startsWith": lambda text, part: str.startswith(text, part),
    "endsWith": lambda text, part: str.endswith(text, part),
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
}
FUNCTIONS["matches"] = METHODS["matches"]
