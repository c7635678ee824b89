"""Local runs behave as those of the service; localstack/proof/e2e runs the same flows both ways."""

import contextlib
import io
import json
import logging
import os
import signal
import sys
import tempfile
import time
import unittest
import warnings

from millrace import ExpressionError, File, FlowDefinitionError, TaskFailedError, TaskTimeoutError, flow, transform
from millrace import _record
from tests.module_level import task


class Same(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.home = home.name
        os.environ["MILLRACE_HOME"] = self.home
        self.addCleanup(os.environ.pop, "MILLRACE_HOME")
        quiet = contextlib.redirect_stderr(io.StringIO())
        self.stderr = quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)

    def run_of(self):
        runs = os.path.join(self.home, "runs")
        return os.path.join(runs, max(os.listdir(runs)))

    def events(self, task_name=None):
        with open(os.path.join(self.run_of(), "log.jsonl"), encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        return [e for e in events if e["event_type"] == "log" and e.get("task_name") == (task_name or e.get("task_name")) and e["logger"] != "millrace"]

    def meta(self, name):
        with open(os.path.join(self.run_of(), "tasks", name, "meta.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_log_lines_have_level_and_instance(self):
        @task
        def says(item, ctx):
            logging.getLogger("lib").info("kept %s", item)
            logging.debug("dropped")
            logging.warning("careful")
            warnings.warn("old")
            print("out")
            print("err", file=sys.stderr)
            os.system("echo child; echo child err >&2")
            ctx.log("noted", level="debug")

        flow(lambda: says.map([7]))()
        events = {e["message"].splitlines()[0]: e for e in self.events()}
        got = {text: (e["level"], e["logger"]) for text, e in events.items() if "warn" not in text.lower()}
        self.assertEqual(got, {"kept 7": ("info", "lib"), "careful": ("warning", "root"), "out": ("info", "stdout"), "err": ("warning", "stderr"),
                               "child": ("info", "stdout"), "child err": ("warning", "stderr"), "noted": ("debug", "task")})
        self.assertEqual({(e["map_index"], e["attempt"]) for e in events.values()}, {(0, 1)})
        self.assertIn("INFO    [says[0]] kept 7\n", self.stderr.getvalue())

    def test_traceback_is_one_event(self):
        @task
        def fails():
            raise ConnectionError("refused")

        with self.assertRaises(TaskFailedError):
            flow(lambda: fails())()
        (event,) = self.events()
        self.assertEqual((event["level"], event["logger"]), ("error", "traceback"))
        self.assertTrue(event["message"].endswith('raise ConnectionError("refused")\nConnectionError: refused'))
        self.assertNotIn("/millrace/", event["message"])
        attempt = self.meta("fails")["attempts"][0]
        self.assertEqual((attempt["error_type"], attempt["exception"]), ("TaskFailedError", "ConnectionError"))
        self.assertEqual(attempt["traceback"], event["message"])

    def test_exit_of_process_is_described(self):
        @task
        def leaves():
            os._exit(4)

        @task
        def killed():
            os.kill(os.getpid(), signal.SIGSEGV)

        for one, want in ((leaves, "the interpreter died: exit status 4"), (killed, "the interpreter died: killed by signal 11 (segmentation fault)")):
            with self.subTest(want), self.assertRaises(TaskFailedError):
                flow(lambda: one())()
            attempt = self.meta(one.name)["attempts"][0]
            self.assertEqual((attempt["error_type"], attempt["error_message"]), ("SandboxError", want))

    def test_timeout_lets_task_clean_up(self):
        @task(timeout=0.2)
        def slow():
            try:
                time.sleep(60)
            finally:
                print("cleaned up")

        with self.assertRaises(TaskTimeoutError):
            flow(lambda: slow())()
        self.assertEqual([e["message"] for e in self.events()], ["cleaned up"])

    def test_reasons_of_skipped_tasks(self):
        @task
        def boom():
            raise ValueError("no")

        @task
        def other():
            pass

        def body():
            failed = boom()
            other.with_options(name="after", depends_on=failed)()
            skipped = other.with_options(name="skipped", condition="false")()
            other.with_options(name="rule", depends_on=skipped)()

        with self.assertRaisesRegex(TaskFailedError, r"^1 of 4 tasks failed: boom \(ValueError: no\)$"):
            flow(body)()
        self.assertEqual((self.meta("skipped")["reason"], self.meta("rule")["reason"]),
                         ("its condition is false", "its trigger rule all_success does not hold"))
        log = self.stderr.getvalue()
        self.assertIn("WARNING [after] Task after not run: a task it depends on did not succeed (trigger rule all_success)\n", log)
        self.assertIn("INFO    [skipped] Task skipped skipped: its condition is false\n", log)

    def test_interrupted_run_keeps_records(self):
        @task
        def interrupted():
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(60)

        @task
        def never():
            pass

        def body():
            never.with_options(depends_on=interrupted())()

        with self.assertRaises(KeyboardInterrupt):
            flow(body)()
        (attempt,) = self.meta("interrupted")["attempts"]
        self.assertEqual((attempt["status"], attempt["error_type"], attempt["error_message"]), ("CANCELLED", "CancelledError", "The run was cancelled."))
        self.assertEqual((self.meta("never")["status"], self.meta("never")["attempts"]), ("CANCELLED", []))
        self.assertIn("WARNING [interrupted] Task interrupted stopped: The run was cancelled.\n", self.stderr.getvalue())

    def test_expression_error_fails_attempt(self):
        @task(retries=3)
        def never(x=0):
            pass

        def body():
            never.with_options(name="condition", condition="params")()
            never.with_options(name="list", map_over="params")()
            never.with_options(name="input")("${{ params.x }}")
            transform("value", "1 / 0", retries=3)

        with self.assertRaises(ExpressionError):
            flow(body)()
        for name, want in {
            "condition": "condition: expected true or false, the expression gave an object in `params`",
            "list": "map_over: expected a list, the expression gave an object in `params`",
            "input": "inputs: no such key: x in `params.x`",
            "value": "config.expression: division by zero in `1 / 0`",
        }.items():
            (attempt,) = self.meta(name)["attempts"]
            self.assertEqual((attempt["attempt"], attempt["error_type"], attempt["error_message"]), (1, "ExpressionError", want))

    def test_error_of_run_names_failed_tasks(self):
        @task
        def boom(item):
            raise ValueError("no\n" + item * 400)

        def body():
            boom.map(["x", "y"])
            for number in range(4):
                boom.with_options(name=f"b{number}")("z")

        with self.assertRaises(TaskFailedError) as caught:
            flow(body)()
        told = lambda letter: "ValueError: no " + letter * 285 + "…"
        self.assertEqual(
            str(caught.exception),
            f"5 of 5 tasks failed: boom[0] ({told('x')}; 2 of 2 instances failed), b0 ({told('z')}), b1 ({told('z')}), and 2 more",
        )

    def test_on_failure_gets_failures(self):
        @task
        def boom(item):
            return 1 // item

        @task
        def tell(failed):
            print(json.dumps(failed))

        with self.assertRaises(TaskFailedError):
            flow(on_failure=tell)(lambda: boom.map([1, 0]))()
        (event,) = self.events("tell")
        told = {"task_name": "boom", "map_index": 1, "attempt": 1, "error_type": "TaskFailedError"}
        self.assertEqual(json.loads(event["message"]), [{**told, "error_message": "ZeroDivisionError: integer division or modulo by zero"}])

    def test_tasks_start_in_directory_of_module(self):
        @task
        def where():
            return os.getcwd()

        self.assertEqual(flow(lambda: where())()["where"], os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

    def test_expressions_are_checked_before_run(self):
        @task
        def never():
            pass

        for options, want in (({"condition": "size("}, "unexpected end"), ({"map_over": "tasks.nobody.output"}, "which is no task")):
            with self.subTest(options), self.assertRaisesRegex(FlowDefinitionError, want):
                flow(lambda: never.with_options(**options)())()
        self.assertFalse(os.path.exists(os.path.join(self.home, "runs")))

    def test_files(self):
        @task
        def save(item, ctx):
            path = os.path.join(self.home, f"{item}.txt")
            with open(path, "w") as file:
                file.write(f"row {item}")
            return {"file": ctx.save_file(path, name="rows.csv"), "n": item}

        @task
        def read(rows, first: File):
            with open(first) as file:
                return [first.name, first.size, file.read(), *(f["file"].read_text() for f in rows)]

        def body():
            rows = save.map([1, 2])
            return read(rows, rows[0]["file"])

        run = flow(body)()
        self.assertEqual(run.result, ["rows.csv", 5, "row 1", "row 1", "row 2"])
        self.assertEqual(run["save"][1]["file"].read_text(), "row 2")

    def test_files_that_cannot_be_saved(self):
        @task
        def save(ctx, path, name):
            return ctx.save_file(path, name=name)

        for path, name, want in (("/nonexistent", None, "there is no file"), (__file__, "a\nb", "no name of a file"), (self.home, None, "there is no file")):
            with self.subTest(want), self.assertRaisesRegex(TaskFailedError, want):
                flow(lambda: save(path, name))()

    def test_newest_runs_are_kept(self):
        @task
        def one():
            return 1

        short = flow(lambda: one())
        os.environ["MILLRACE_KEEP_RUNS"] = "3"
        self.addCleanup(os.environ.pop, "MILLRACE_KEEP_RUNS")
        made = [short().run_id for _ in range(5)]
        self.assertEqual(sorted(os.listdir(os.path.join(self.home, "runs"))), made[-3:])

    def test_unfinished_run_is_kept(self):
        runs = os.path.join(self.home, "runs")
        for number, status in enumerate(("RUNNING", "SUCCEEDED", "FAILED")):
            path = os.path.join(runs, f"{number:026}")
            os.makedirs(path)
            open(os.path.join(path, "run.log"), "w").close()
            with open(os.path.join(path, "run.json"), "w") as file:
                json.dump({"status": status}, file)
        os.makedirs(os.path.join(runs, "mine"))
        _record.prune(runs, 1)
        self.assertEqual(sorted(os.listdir(runs)), [f"{0:026}", f"{2:026}", "mine"])
