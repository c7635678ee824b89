"""A subset of CEL, for local runs. Other expressions need the service.

Field access, indexing, arithmetic, comparisons, &&, ||, !, ?:, in, list and map
literals, size, has, string, int, double, bool, matches, contains, startsWith,
endsWith and the macros all, exists, exists_one, filter and map. Python's
eval is never used.
"""

import re

from . import _celvalues as _v
from .errors import ExpressionError

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)|(?P<int>0[xX][0-9a-fA-F]+[uU]?|\d+[uU]?)
    |(?P<string>[rR]?(?:'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
    |(?P<name>[A-Za-z_]\w*)|(?P<op>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL)
_MACROS = {"all", "exists", "exists_one", "filter", "map"}
_MAX_DEPTH = 40
_MAX_SHOWN = 200  # characters of an expression in an error


class Unsupported(ExpressionError):
    """An expression that local runs do not support; the service may."""


def check(text):
    """Raise an error if the syntax of an expression is invalid. Names and functions are not checked."""
    try:
        compile_expression(text)
    except Unsupported:
        pass  # the service decides


def evaluate(text, names, where=""):
    """Return the value of an expression over a dict of names; ExpressionError if it has none. where is the part of the task that contains it."""
    return _located(where, lambda: compile_expression(text)(names))


def boolean(text, names, where):
    """Return the value of a condition."""
    return _expected(bool, "true or false", text, names, where)


def elements(text, names, where):
    """Return the list that an expression evaluates to."""
    return _expected(list, "a list", text, names, where)


def _expected(kind, what, text, names, where):
    value = evaluate(text, names, where)
    if not isinstance(value, kind):
        raise ExpressionError(f"{where}: expected {what}, the expression gave {_v.kind(value)}{_in(text)}")
    return value


def _located(where, give):
    try:
        return give()
    except ExpressionError as error:
        # The error of a missing secret names its location already.
        raise ExpressionError(str(error) if not where or str(error).startswith("config: ") else f"{where}: {error}") from None


def _in(text):
    """Return the end of an error message, which quotes the expression as the service does."""
    text = " ".join(text.split())
    return f" in `{text[:_MAX_SHOWN] + '…' if len(text) > _MAX_SHOWN else text}`"


def compile_expression(text):
    """Compile an expression to a function of a dict of names."""
    parser = _Parser(text)
    node = parser.ternary()
    if parser.kind != "end":
        raise parser.error()

    def run(names):
        try:
            return _v.plain(node(names))
        except ExpressionError as error:
            raise ExpressionError(f"{error}{_in(text)}") from None
        except RecursionError:
            raise ExpressionError(f"nested too deeply{_in(text)}") from None
        except TypeError:  # a list or an object where a key is wanted
            raise ExpressionError(f"an object's key must be a string, a number or a boolean{_in(text)}") from None

    return run


class _Parser:
    def __init__(self, text):
        self.text = text
        self.tokens = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ExpressionError(f"unexpected {text[at]!r} at character {at + 1} of {text!r}")
            if match.lastgroup:
                self.tokens.append((match.lastgroup, match.group(match.lastgroup), at))
            at = match.end()
        self.tokens.append(("end", "", len(text)))
        self.index = 0
        self.depth = 0

    @property
    def kind(self):
        return self.tokens[self.index][0]

    @property
    def value(self):
        return self.tokens[self.index][1]

    def error(self):
        if self.kind == "end":
            return ExpressionError(f"unexpected end of {self.text!r}")
        return ExpressionError(f"unexpected {self.value!r} at character {self.tokens[self.index][2] + 1} of {self.text!r}")

    def unsupported(self):
        return Unsupported(f"{self.value!r} at character {self.tokens[self.index][2] + 1} of {self.text!r} needs the service")

    def next(self):
        token = self.tokens[self.index]
        self.index += 1
        return token[1]

    def accept(self, *ops):
        if (self.kind == "op" or self.value == "in") and self.value in ops:
            return self.next()
        return None

    def expect(self, op):
        if self.kind != "op" or self.value != op:
            raise self.error()
        self.next()

    def ternary(self):
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise ExpressionError(f"{self.text!r} is nested too deeply")
        condition = self.disjunction()
        if self.accept("?"):
            yes = self.disjunction()
            self.expect(":")
            no = self.ternary()
            test = condition
            condition = lambda names: yes(names) if _v.boolean(test(names)) else no(names)
        self.depth -= 1
        return condition

    def disjunction(self):
        left = self.conjunction()
        while self.accept("||"):
            left = _v.logic(left, self.conjunction(), True)
        return left

    def conjunction(self):
        left = self.relation()
        while self.accept("&&"):
            left = _v.logic(left, self.relation(), False)
        return left

    def relation(self):
        return self.binary(self.sum, "==", "!=", "<", "<=", ">", ">=", "in")

    def sum(self):
        return self.binary(self.product, "+", "-")

    def product(self):
        return self.binary(self.unary, "*", "/", "%")

    def binary(self, operand, *ops):
        left = operand()
        while op := self.accept(*ops):
            left = _v.binary(_v.OPERATORS[op], left, operand())
        return left

    def unary(self):
        if self.accept("!"):
            operand = self.unary()
            return lambda names: not _v.boolean(operand(names))
        if self.accept("-"):
            operand = self.unary()
            return lambda names: _v.negative(operand(names))
        return self.member()

    def member(self):
        node = self.primary()
        while True:
            if self.accept("."):
                if self.value == "?":
                    raise self.unsupported()
                if self.kind != "name":
                    raise self.error()
                name = self.next()
                if self.accept("("):
                    node = self.method(node, name)
                else:
                    node = _v.field(node, name)
            elif self.value == "{" and self.tokens[self.index - 1][0] == "name":
                raise self.unsupported()  # a message
            elif self.accept("["):
                if self.value == "?":
                    raise self.unsupported()
                index = self.ternary()
                self.expect("]")
                node = _v.index(node, index)
            else:
                return node

    def method(self, target, name):
        if name in _MACROS:
            if self.kind != "name" or self.tokens[self.index + 1][1] != ",":
                raise self.error()
            variable = self.next()
            self.next()
            bodies = self.arguments(")")
            if len(bodies) != 1 and not (name == "map" and len(bodies) == 2):
                raise self.error()
            return _v.macro(name, target, variable, bodies)
        arguments = self.arguments(")")
        if name not in _v.METHODS:
            return _v.unknown(name)
        return _v.call(_v.METHODS[name], [target, *arguments], name)

    def arguments(self, end):
        found = []
        while not self.accept(end):
            if found:
                self.expect(",")
            found.append(self.ternary())
        return found

    def primary(self):
        kind, value = self.kind, self.value
        if kind == "end":
            raise self.error()
        if value == "." or kind == "name" and value.lower() in ("b", "br", "rb") and self.tokens[self.index + 1][0] == "string":
            raise self.unsupported()
        self.next()
        if kind in ("int", "float", "string"):
            constant = {"int": _integer, "float": float, "string": _string}[kind](value)
            return lambda names: constant
        if kind == "name":
            return self.name(value)
        if value == "(":
            node = self.ternary()
            self.expect(")")
            return node
        if value == "[":
            items = self.arguments("]")
            return lambda names: [item(names) for item in items]
        if value == "{":
            return self.object()
        self.index -= 1
        raise self.error()

    def object(self):
        pairs = []
        while not self.accept("}"):
            if pairs:
                self.expect(",")
            key = self.ternary()
            self.expect(":")
            pairs.append((key, self.ternary()))
        return lambda names: {key(names): value(names) for key, value in pairs}

    def name(self, name):
        if name in ("true", "false", "null"):
            constant = {"true": True, "false": False, "null": None}[name]
            return lambda names: constant
        if not self.accept("("):
            return lambda names: _v.lookup(names, name)
        if name == "has":
            node = self.ternary()
            self.expect(")")
            return lambda names: _v.has(node, names)
        arguments = self.arguments(")")
        if name not in _v.FUNCTIONS:
            return _v.unknown(name)
        return _v.call(_v.FUNCTIONS[name], arguments, name)


def _integer(text):
    return int(text.rstrip("uU"), 0 if text[:2].lower() == "0x" else 10)


def _string(text):
    raw = text[0] in "rR"
    text = text[1:] if raw else text
    text = text[3:-3] if text[:3] in ("'''", '"""') else text[1:-1]
    if raw:
        return text

    def replace(match):
        code = match.group(1) or match.group(2) or match.group(3)
        if code:
            return chr(int(code, 16))
        if match.group(4):
            return chr(int(match.group(4), 8))
        return _ESCAPES.get(match.group(5), match.group(5))

    return _ESCAPE.sub(replace, text)


_TEMPLATE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_TEXT = re.compile(r"""(?<![\w\]\["'])[rR]?(?:'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")""", re.DOTALL)


def parts(text):
    """Split a text with ${{ … }} into [(part, is expression)]; one part if the whole text is an expression."""
    whole = _TEMPLATE.fullmatch(text.strip())
    if whole and whole.group(1).count("}}") == 0:
        return [(whole.group(1).strip(), True)]
    found, at = [], 0
    for match in _TEMPLATE.finditer(text):
        if match.start() > at:
            found.append((text[at : match.start()], False))
        found.append((match.group(1).strip(), True))
        at = match.end()
    if at < len(text):
        found.append((text[at:], False))
    return found


def expressions(text):
    """Return the expressions of a text with ${{ … }} in it."""
    return [part for part, is_expression in parts(text) if is_expression] if "${{" in text else []


def without_text(text):
    """Return an expression without its string literals, except those in brackets, which name fields."""
    return _TEXT.sub('""', text)


def render(value, names, where=""):
    """Replace each ${{ … }} in the strings of a JSON value; one that is the whole string keeps its type.
    where is the part of the task that has the value."""
    return _located(where, lambda: _rendered(value, names))


def _rendered(value, names):
    if isinstance(value, dict):
        return {key: _rendered(value[key], names) for key in sorted(value)}
    if isinstance(value, list):
        return [_rendered(item, names) for item in value]
    if not isinstance(value, str) or "${{" not in value:
        return value
    found = parts(value)
    if len(found) == 1:
        return evaluate(found[0][0], names)
    return "".join(_interpolated(evaluate(part, names)) if is_expression else part for part, is_expression in found)


def _interpolated(value):
    if isinstance(value, (str, bool, int, float)):
        return _v.text(value)
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
