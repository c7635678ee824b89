import os
import sys
import tempfile
import unittest

from runner.core import Executor


class ArgumentsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        with open(os.path.join(self.folder.name, "arguments_flow.py"), "w") as file:
            file.write("def load(rows, day='none', *, ctx, index=-1): return [rows, day, ctx.params, index]\n")
        self.executor = Executor(self.folder.name, lambda *event: None)

    def tearDown(self):
        sys.path.remove(self.folder.name)
        sys.modules.pop("arguments_flow", None)
        self.folder.cleanup()

    def run_with(self, **more):
        request = {"entrypoint": "arguments_flow:load", "task_name": "load", "params": {"day": "monday", "rows": 0}, **more}
        answer, output = self.executor.execute(request)
        return answer.get("failure", {}).get("message") or output.decode()

    def test_by_name(self):
        self.assertEqual('[[1],"monday",{"day":"monday","rows":0},-1]', self.run_with(inputs={"rows": {"value": [1]}}).replace(" ", ""))

    def test_inputs_alone(self):
        given = self.run_with(inputs={"rows": {"value": [1]}}, only_inputs=True, map_index=2, item="x").replace(" ", "")
        self.assertEqual('[[1],"none",{"day":"monday","rows":0},2]', given)
        self.assertIn("needs the argument 'rows'", self.run_with(only_inputs=True))
