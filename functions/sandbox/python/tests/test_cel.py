import unittest

from millrace._cel import evaluate, render
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
            "7.0 / 2": 3.5,
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

    def test_refusals(self):
        for text, want in {
            "params.missing": "no such key",
            "nothing": "there is no 'nothing'",
            "1 && true": "neither true nor false",
            "1 + 'a'": "not a number",
            "1 / 0": "division by zero",
            "[1][5]": "outside",
            "timestamp('2026-01-01T00:00:00Z')": "needs the service",
            "'a'.format(['x'])": "needs the service",
            "1 +": "unexpected end of",
            "a @ b": "unexpected '@' at character 3",
            "__import__('os')": "needs the service",
            "'' . __class__": "has no field",
            "(" * 500 + "1" + ")" * 500: "nested too deeply",
        }.items():
            with self.subTest(text), self.assertRaisesRegex(ExpressionError, want):
                evaluate(text, NAMES)

    def test_render(self):
        config = {"a": "${{ params.n }}", "b": "n=${{ params.n }}, ${{ params.day }}", "c": ["${{ tasks.a.output[0] }}"], "d": 1}
        self.assertEqual(render(config, NAMES), {"a": 7, "b": "n=7, mon", "c": [{"ok": True, "v": 1}], "d": 1})
