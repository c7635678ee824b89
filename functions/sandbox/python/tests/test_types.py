import ast
import inspect
import os
import unittest

import millrace
from millrace import flows, tasks


class Types(unittest.TestCase):
    """What pyright makes of them is tested by ``make types``."""

    def test_type_checkers_see_exports(self):
        with open(millrace.__file__, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        (block,) = [node for node in tree.body if isinstance(node, ast.If)]
        seen = {alias.name: part.module for part in block.body if isinstance(part, ast.ImportFrom) for alias in part.names}
        self.assertEqual(seen, millrace._LAZY)
        for name in millrace.__all__:
            self.assertTrue(hasattr(millrace, name), name)
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(millrace.__file__), "py.typed")))

    def test_declared_options_match_implementation(self):
        for module, name in ((tasks, "task"), (flows, "flow")):
            with open(module.__file__, encoding="utf-8") as file:
                found = [node for node in ast.parse(file.read()).body if isinstance(node, ast.FunctionDef) and node.name == name]
            declared = {argument.arg for node in found[:-1] for argument in node.args.kwonlyargs}
            taken = {p.name for p in inspect.signature(getattr(module, name)).parameters.values() if p.kind == p.KEYWORD_ONLY}
            self.assertEqual(declared, taken)
