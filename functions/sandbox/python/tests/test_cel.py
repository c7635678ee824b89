import unittest

from millrace._cel import boolean, elements, evaluate, render
from millrace.errors import ExpressionError

NAMES = {
    "params": {"day": "mon", "n": 7, "f": 2.0},
    "tasks": {"a": {"output": [{"ok": True, "v": 1}, {"ok": False, "v": 2}], "status": "SUCCEEDED"}, "a-b": {"output": 3}},
}


class Evaluate(unittest.TestCase):
    def test_values(self):
        for text, want in {
            "params.n + 1 == 8 && params.day == 'mon'": True,
            "tasks.a.output.filter(r, r.ok)": [{"ok": True, "v": 1}],
            "tasks.a.output.map(r, r.v * 10)": [10, 20],
            "tasks.a.output.map(r, r.ok, r.v)": [1],
            "tasks.a.output.exists(r, r.v == 2)": True,
            "tasks.a.output.all(r, r.v > 1)": False,
            "tasks.a.output.exists_one(r, r.ok)": True,
            "size(tasks.a.output) > 1 ? 'many' : 'few'": "many",
            'tasks["a-b"].output': 3,
            "'mon' in ['mon', 'tue'] || false": True,
            "'x' in {'x': 1}": True,
            "-7 / 2": -3,
            "-7 % 2": -1,
            "7.0 / 2.0": 3.5,
            "double(params.n) / 2.0": 3.5,
            "params.f": 2,  # as the service writes it
            "[params.f, {'x': 0.5}]": [2, {"x": 0.5}],
            "params.f / 0.0 > 1.0": True,
            "bool('t')": True,
            "!has(params.missing)": True,
            "params.missing == 1 || true": True,
            "false && params.missing": False,
            r"'a\n\u00e4' + r'\n'": "a\nä\\n",
            "'abc'.startsWith('a') && 'abc'.matches('^a.c$')": True,
            "1 == 1.0": True,
            "true == 1": False,
            "[1, 2] + [3]": [1, 2, 3],
            "{'a': [1, {'b': null}]}": {"a": [1, {"b": None}]},
            "string(params.n) + 'x'": "7x",
            "tasks.a.output[1].v": 2,
            "1 < 2 // a comment": True,
        }.items():
            with self.subTest(text):
                got = evaluate(text, NAMES)
                self.assertEqual((got, type(got)), (want, type(want)))

    def test_unsupported_and_invalid_expressions(self):
        for text, want in {
            "params.missing": "^no such key: missing in `params.missing`$",
            "params.day.x": "^no such key: x in",
            'params[["n"]]': "^an object's key must be",
            "nothing": "undeclared reference to 'nothing'",
            "1 && true": "^no such overload: a number is neither true nor false in",
            "1 + 'a'": "^no such overload: a string is not a number in",
            "params.n + params.f": "^no such overload: numbers with and without a fraction do not mix",
            "params.n * 1.5": "^no such overload: numbers with and without a fraction do not mix",
            "9223372036854775807 + params.n": "^integer overflow in",
            "params.f / 0.0": r"^\+Inf cannot be written as JSON in",
            "int(params.day)": "^type conversion error from 'string' to 'int' in",
            "1 / 0": "^division by zero in",
            "1 % 0": "^modulus by zero in",
            "[1][5]": r"^index out of bounds: 5 in `\[1\]\[5\]`$",
            "[1].x": "^unsupported index type 'string' in list in",
            "params.n.map(x, x)": "^no such overload: map is for lists and objects, not for a number in",
            "timestamp('2026-01-01T00:00:00Z')": "needs the service",
            "'a'.format(['x'])": "needs the service",
            "1 +": "unexpected end of",
            "a @ b": "unexpected '@' at character 3",
            "__import__('os')": "needs the service",
            "'' . __class__": "no such key",
            "(" * 500 + "1" + ")" * 500: "nested too deeply",
        }.items():
            with self.subTest(text), self.assertRaisesRegex(ExpressionError, want):
                evaluate(text, NAMES)

    def test_errors_name_location(self):
        for call, want in {
            lambda: boolean("params.n", NAMES, "condition"): "condition: expected true or false, the expression gave a number in `params.n`",
            lambda: elements("params", NAMES, "map_over"): "map_over: expected a list, the expression gave an object in `params`",
            lambda: evaluate("params.x +\n  1", NAMES, "config.expression"): "config.expression: no such key: x in `params.x + 1`",
            lambda: evaluate("params.x" + " + 1" * 100, NAMES, "condition"): "condition: no such key: x in `params.x" + " + 1" * 48 + "…`",
            lambda: render({"b": "${{ params.y }}", "a": ["${{ params.x }}"]}, NAMES, "inputs"): "inputs: no such key: x in `params.x`",
        }.items():
            with self.subTest(want), self.assertRaises(ExpressionError) as caught:
                call()
            self.assertEqual(want, str(caught.exception))

    def test_render(self):
        config = {"a": "${{ params.n }}", "b": "n=${{ params.n }}, ${{ params.day }}", "c": ["${{ tasks.a.output[0] }}"], "d": 1}
        self.assertEqual(render(config, NAMES), {"a": 7, "b": "n=7, mon", "c": [{"ok": True, "v": 1}], "d": 1})
