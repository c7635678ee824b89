"""The operators, functions and macros of CEL; _cel.py is the parser.

Types and errors are those of the service, so that what fails there fails here with
the same message; only errors of operand types say more.
"""

import math
import re

from .errors import ExpressionError


def lookup(names, name):
    if name not in names:
        raise ExpressionError(f"undeclared reference to {name!r}")
    return names[name]


def select(value, name):
    if isinstance(value, list):
        raise ExpressionError("unsupported index type 'string' in list")
    if not isinstance(value, dict) or name not in value:
        raise ExpressionError(f"no such key: {'null' if name is None else text(name)}")
    return value[name]


def field(node, name):
    return lambda names: select(node(names), name)


def index(node, index):
    def run(names):
        value, at = node(names), index(names)
        if isinstance(value, list):
            if isinstance(at, float) and at.is_integer():
                at = int(at)
            if isinstance(at, float):
                raise ExpressionError(f"unsupported index value {at:g} in list")
            if isinstance(at, bool) or not isinstance(at, int):
                raise ExpressionError(f"unsupported index type '{_type(at)}' in list")
            if not 0 <= at < len(value):
                raise ExpressionError(f"index out of bounds: {at}")
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
        raise _overload(f"{kind(value)} is neither true nor false")
    return value


def negative(value):
    return _whole(-_number(value))


def _number(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _overload(f"{kind(value)} is not a number")
    return value


def _numbers(a, b):
    if isinstance(_number(a), float) != isinstance(_number(b), float):
        raise _overload("numbers with and without a fraction do not mix, convert with double(…) or int(…)")
    return a, b


def _whole(value):
    """Return the result of arithmetic; an integer must fit 64 bits."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ExpressionError("integer overflow")
    return value


def _overload(why):
    return ExpressionError(f"no such overload: {why}")


def kind(value):
    """Return the JSON type of a value."""
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object", type(None): "null"}
    return kinds.get(type(value), type(value).__name__)


def _type(value):
    """Return the name of a value's type in CEL."""
    return {bool: "bool", int: "int", float: "double", str: "string", list: "list", dict: "map", type(None): "null_type"}[type(value)]


def plain(value):
    """Return a value as it is once the service has written it as JSON: 2.0 is 2 there."""
    if isinstance(value, float):
        if value != value or value in (math.inf, -math.inf):
            raise ExpressionError(f"{ {math.inf: '+Inf', -math.inf: '-Inf'}.get(value, 'NaN') } cannot be written as JSON")
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


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
            raise _overload(f"{kind(a)} and {kind(b)} have no order")
        return compare(a, b)

    return run


def _add(a, b):
    if isinstance(a, (str, list)) and type(a) is type(b):
        return a + b
    a, b = _numbers(a, b)
    return _whole(a + b)


def _subtract(a, b):
    a, b = _numbers(a, b)
    return _whole(a - b)


def _multiply(a, b):
    a, b = _numbers(a, b)
    return _whole(a * b)


def _divide(a, b):
    a, b = _numbers(a, b)
    if isinstance(a, float):
        if b == 0:
            return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)
        return a / b
    if b == 0:
        raise ExpressionError("division by zero")
    return _whole(_quotient(a, b))


def _remainder(a, b):
    if isinstance(_number(a), float) or isinstance(_number(b), float):
        raise _overload("% takes whole numbers")
    if b == 0:
        raise ExpressionError("modulus by zero")
    return a - b * _quotient(a, b)


def _quotient(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _contained(a, b):
    if isinstance(b, list):
        return any(_equal(a, item) for item in b)
    if isinstance(b, dict):
        return a in b
    raise _overload(f"nothing is in {kind(b)}")


OPERATORS = {
    "==": _equal,
    "!=": lambda a, b: not _equal(a, b),
    "<": _ordered(lambda a, b: a < b),
    "<=": _ordered(lambda a, b: a <= b),
    ">": _ordered(lambda a, b: a > b),
    ">=": _ordered(lambda a, b: a >= b),
    "in": _contained,
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _remainder,
}


def macro(name, target, variable, bodies):
    def run(names):
        values = target(names)
        if isinstance(values, dict):
            values = list(values)
        if not isinstance(values, list):
            raise _overload(f"{name} is for lists and objects, not for {kind(values)}")
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
        except (TypeError, ValueError, AttributeError, re.error):
            raise _overload(f"{name} does not take {', '.join(map(kind, values)) or 'nothing'}") from None

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


def _conversion(name, convert):
    def run(value):
        try:
            return convert(value)
        except ValueError:
            raise ExpressionError(f"type conversion error from '{_type(value)}' to '{name}'") from None
        except OverflowError:
            raise ExpressionError("integer overflow") from None

    return run


def _int(value):
    if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]+", value):
        raise ValueError
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise TypeError
    return _whole(int(value))


def _double(value):
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _bool(value):
    if isinstance(value, str):
        if value not in ("true", "True", "TRUE", "t", "1", "false", "False", "FALSE", "f", "0"):
            raise ValueError
        return value in ("true", "True", "TRUE", "t", "1")
    return boolean(value)


FUNCTIONS = {"size": _size, "string": text, "int": _conversion("int", _int), "double": _conversion("double", _double), "bool": _conversion("bool", _bool)}
METHODS = {
    "size": _size,
    "contains": lambda text, part: str.__contains__(text, part),
    "startsWith": lambda text, part: str.startswith(text, part),
    "endsWith": lambda text, part: str.endswith(text, part),
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
}
FUNCTIONS["matches"] = METHODS["matches"]
