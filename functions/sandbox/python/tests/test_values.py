import functools
import unittest

from millrace import ArtifactSerializationError, TaskFailedError
from millrace._arguments import call, fill, from_mapping, from_tasks, parameters
from millrace._values import encode


class Values(unittest.TestCase):
    def test_json(self):
        self.assertEqual(encode({"a": (1, 2.5, None, True), "ä": "\n"}), '{"a":[1,2.5,null,true],"ä":"\\n"}'.encode())
        self.assertEqual(encode(10**30), b"1" + b"0" * 30)

    def test_values_that_cannot_be_encoded(self):
        loop = []
        loop.append(loop)
        for value, want in (
            (float("nan"), "the output is nan"),
            ({"a": [float("-inf")]}, r"the output\.a\[0\] is -inf"),
            ({"a": {None: 1}}, r"the output\.a has the key None"),
            ([{1: 2}], r"the output\[0\] has the key 1"),
            ({"a": object()}, r"the output\.a is of type builtins\.object, .* ctx\.save_file"),
            ("\ud800", "not valid Unicode"),
            (loop, "contains itself"),
        ):
            with self.subTest(want), self.assertRaisesRegex(ArtifactSerializationError, want):
                encode(value)


class Arguments(unittest.TestCase):
    def test_kinds(self):
        def f(a, /, b, c=1, *args, d, e=2, **kwargs):
            return a, b, c, d, e

        sources = (from_mapping({"a": 1, "d": 4}), from_tasks({"b": "x", "not-used": "y"}, str.upper), from_mapping({"a": "shadowed"}))
        args, kwargs = fill(parameters(f), sources, "t")
        self.assertEqual(f(*args, **kwargs), (1, "X", 1, 4, 2))

    def test_wrapped_functions_keep_their_names(self):
        def decorate(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs)

            return wrapper

        @decorate
        def f(day, limit=3):
            return day, limit

        self.assertEqual(parameters(f), [("day", "normal", False), ("limit", "normal", True)])

    def test_missing(self):
        with self.assertRaisesRegex(TaskFailedError, "'t' needs the argument 'x'"):
            fill([("x", "normal", False)], (), "t")

    def test_coroutines(self):
        async def f(n):
            return n + 1

        self.assertEqual(call(f, [1], {}), 2)
