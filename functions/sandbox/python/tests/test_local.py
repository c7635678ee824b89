import contextlib
import http.server
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import millrace
from millrace import ArtifactSerializationError, TaskFailedError, TaskTimeoutError, flow
from tests.module_level import task


class Local(unittest.TestCase):
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
        (run,) = os.listdir(os.path.join(self.home, "runs"))
        return os.path.join(self.home, "runs", run)

    def read(self, *path):
        with open(os.path.join(self.run_of(), *path), encoding="utf-8") as file:
            return json.load(file) if path[-1].endswith(".json") else file.read()

    def test_run_directory_has_all_records(self):
        @task(retries=2, retry_backoff=0.01)
        def extract(ctx, day):
            print("extracting", day)
            os.system("echo from a child >&2")
            ctx.log("noted", rows=3)
            if ctx.attempt == 1:
                raise ValueError("flaky")
            return [{"n": n} for n in range(3)]

        @task
        def each(item, index, suffix="!"):
            return f"{index}{item['n']}{suffix}"

        @task
        def join(each, day):
            return {"joined": each, "day": day}

        @flow(name="kept", version="9")
        def kept(day: str, suffix: str = "?"):
            join(each.map(extract(day)), day)

        result = kept(day="mon")
        self.assertEqual(result["join"], {"joined": ["00?", "11?", "22?"], "day": "mon"})
        log = self.read("tasks", "extract", "1.log")
        for line in ("extracting mon", "from a child", "noted rows=3", "ValueError: flaky"):
            self.assertIn(line, log)
        self.assertNotIn("_attempt.py", log)
        meta = self.read("tasks", "extract", "meta.json")
        self.assertEqual([(a["attempt"], a["status"]) for a in meta["attempts"]], [(1, "FAILED"), (2, "SUCCEEDED")])
        self.assertEqual(meta["attempts"][0]["error_message"], "ValueError: flaky")
        self.assertEqual(self.read("artifacts", "each.json"), ["00?", "11?", "22?"])
        run = self.read("run.json")
        self.assertEqual((run["status"], run["flow_version"], run["parameters"]), ("SUCCEEDED", "9", {"suffix": "?", "day": "mon"}))
        self.assertIn("[extract] extracting mon", self.read("run.log"))
        self.assertEqual(os.stat(os.path.join(self.home, "runs")).st_mode & 0o077, 0, "nobody else reads what runs hold")

    def test_tasks_run_in_parallel(self):
        # Each waits for the other: in sequence neither would end.
        ours, theirs = os.pipe(), os.pipe()

        @task(timeout_secs=10)
        def left():
            os.write(ours[1], b"x")
            return os.read(theirs[0], 1).decode()

        @task(timeout_secs=10)
        def right():
            os.write(theirs[1], b"y")
            return os.read(ours[0], 1).decode()

        @flow
        def both():
            left(), right()

        self.assertEqual(both().outputs, {"left": "y", "right": "x"})
        for fd in (*ours, *theirs):
            os.close(fd)

    def test_errors(self):
        @task(timeout_secs=0.2)
        def slow():
            while True:
                try:
                    time.sleep(60)
                except BaseException:
                    pass

        @task
        def bad():
            return {1: 2}

        @task
        def boom():
            return 1 / 0

        @task
        def gone():
            os._exit(3)

        @task
        def quits():
            sys.exit("enough")

        cases = {
            slow: (TaskTimeoutError, r"timeout_secs \(0.2\)"), bad: (ArtifactSerializationError, "the key 1"),
            boom: (TaskFailedError, "ZeroDivisionError: division by zero"), gone: (TaskFailedError, "exit status 3"),
            quits: (TaskFailedError, "SystemExit: the task called exit with 'enough'"),
        }
        for one, (error, text) in cases.items():
            with self.subTest(one.name), self.assertRaisesRegex(error, text):
                flow(lambda: one())()

    def test_flow_timeout(self):
        @task
        def slow():
            time.sleep(60)

        @flow(timeout_secs=0.2)
        def limited():
            slow()

        with self.assertRaisesRegex(TaskTimeoutError, r"^The run passed its timeout_secs \(0.2\).$"):
            limited()
        self.assertEqual(self.read("run.json")["tasks"], {"slow": "CANCELLED"})

    def test_outcomes_and_on_failure(self):
        @task
        def boom():
            raise ValueError("no")

        @task
        def fine():
            return 1

        node = lambda name, rule=None, **options: fine.with_options(name=name, trigger_rule=rule, **options)
        told = tempfile.NamedTemporaryFile()
        self.addCleanup(told.close)

        @task
        def tell(ctx, failed, failed_count):
            with open(told.name, "w") as file:
                file.write(f"{ctx.flow_name} {[one['task_name'] for one in failed]} {failed_count}")

        @flow(name="outcomes", on_failure=tell)
        def outcomes():
            failed, ok = boom(), fine()
            skipped = node("skipped", condition="1 > 2", depends_on=ok)()
            node("after_failed", depends_on=failed)()
            node("done", "all_done", depends_on=[failed, skipped])()
            node("one", "one_failed", depends_on=[failed, ok])()
            node("one_none", "one_failed", depends_on=ok)()
            node("none", "none_failed", depends_on=[ok, skipped])()
            node("after_skipped", depends_on=[ok, skipped])()
            node("broken", condition="params.nothing > 1")()

        with self.assertRaisesRegex(TaskFailedError, r"2 of 10 tasks failed: boom \(ValueError: no\), broken \(ExpressionError: condition: no such key: nothing in `params.nothing > 1`\)"):
            outcomes()
        self.assertEqual(
            self.read("run.json")["tasks"],
            {"boom": "FAILED", "fine": "SUCCEEDED", "skipped": "SKIPPED", "after_failed": "UPSTREAM_FAILED", "done": "SUCCEEDED", "one": "SUCCEEDED",
             "one_none": "SKIPPED", "none": "SUCCEEDED", "after_skipped": "SKIPPED", "broken": "FAILED", "tell": "SUCCEEDED"},
        )
        self.assertEqual(told.read(), b"outcomes ['boom', 'broken'] 2")

    def test_attempts_have_separate_temporary_files(self):
        @task
        def write(item):
            with tempfile.NamedTemporaryFile(delete=False) as file, open(os.path.join(tempfile.gettempdir(), "part"), "x"):
                child = subprocess.run([sys.executable, "-c", "import tempfile; print(tempfile.gettempdir())"], capture_output=True, text=True)
                return [os.path.dirname(file.name), child.stdout.strip()]

        @flow
        def writers():
            write.map([1, 2, 3])

        places = writers().outputs["write"]
        self.assertEqual(len({directory for both in places for directory in both}), 3)
        for directory, of_child in places:
            self.assertEqual(directory, of_child)
            self.assertFalse(os.path.exists(directory))

    def test_long_lines_are_split_into_events(self):
        @task
        def write(ctx):
            os.write(1, b"a" * 150_000 + b"\n" + b"b" * 70_000)
            print("c" * 70_000)
            ctx.log("d" * 300_000)

        @flow
        def long():
            write()

        long()
        events = [event for event in map(json.loads, self.read("log.jsonl").splitlines()) if event["event_type"] == "log"]
        sizes = sorted((event["message"][0], len(event["message"])) for event in events)
        self.assertEqual(sizes, [("a", 18_928), ("a", 65_536), ("a", 65_536), ("b", 4_464), ("b", 65_536), ("c", 4_464), ("c", 65_536), ("d", 262_146)])

    def test_coroutine_traceback_has_only_its_frames(self):
        @task
        async def fails():
            raise ValueError("no")

        @flow
        def awaited():
            fails()

        with self.assertRaises(TaskFailedError):
            awaited()
        log = self.read("tasks", "fails", "1.log")
        self.assertIn('raise ValueError("no")', log)
        self.assertNotIn("asyncio", log)

    def test_failed_instance_yields_null(self):
        @task
        def each(item):
            return 10 // item

        @task(trigger_rule="all_done")
        def after(each):
            return each

        @flow
        def mapped():
            after(each.map([5, 0, 2]))

        self.assertEqual(mapped()["after"], [2, None, 5])

    def test_empty_map(self):
        @task
        def each(item):
            return item

        self.assertEqual(flow(lambda: each.map([]))()["each"], [])

    def test_long_chain_of_failures(self):
        @task
        def boom():
            raise ValueError

        def chain():
            last = boom()
            for i in range(600):
                last = boom.with_options(name=f"t{i}", depends_on=[last])()

        with self.assertRaises(TaskFailedError):
            flow(chain)()

    def test_builtin_types(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(404 if self.path == "/missing" else 201)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps({"got": json.loads(body), "auth": self.headers["Authorization"]}).encode())

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        os.environ["MILLRACE_SECRET_TOKEN"] = "s3cret"
        self.addCleanup(os.environ.pop, "MILLRACE_SECRET_TOKEN")
        url = f"http://127.0.0.1:{server.server_port}"

        @flow
        def calls(day: str):
            sent = millrace.http("sent", url + "/x", method="POST", json={"day": day}, headers={"Authorization": "${{ secrets.token }}"})
            millrace.http("missing", url + "/missing", method="POST", json=None, body="1", expected_status=[404])
            millrace.wait("pause", 0.01)
            millrace.transform("picked", "tasks.sent.output.json.got.day + '!'").after(sent)

        result = calls(day="mon")
        self.assertEqual(result["sent"]["json"], {"got": {"day": "mon"}, "auth": "s3cret"})
        self.assertEqual((result["sent"]["status"], result["missing"]["status"]), (201, 404))
        self.assertEqual((result["picked"], result["pause"]), ("mon!", {"waited_seconds": 0.01}))

    def test_parameters_are_checked(self):
        @task
        def one(n):
            return n

        @flow
        def numbered(n: int):
            one(n)

        for given in ({}, {"n": "x"}, {"n": 1, "m": 2}, {"n": True}):
            with self.subTest(given), self.assertRaises(millrace.FlowDefinitionError):
                numbered(**given)

    def test_command_line(self):
        file = os.path.join(self.home, "my.py")
        with open(file, "w") as out:
            out.write(
                "from millrace import flow, task\n@task\ndef double(n):\n    print('hello')\n    return n * 2\n"
                "@flow(name='twice')\ndef twice(n: int):\n    double(n)\nif __name__ == '__main__':\n    print(twice(n=4)['double'])\n"
            )
        python = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        env = {**os.environ, "PYTHONPATH": python, "PYTHONDONTWRITEBYTECODE": "1"}

        def call(*arguments, code=0):
            done = subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True)
            self.assertEqual(done.returncode, code, done.stderr)
            return done.stdout if code == 0 else done.stderr

        self.assertEqual(json.loads(call("-m", "millrace", "spec", file + ":twice"))["tasks"][0]["entrypoint"], "my:double")
        self.assertEqual(json.loads(call("-m", "millrace", "run", file, "--param", "n=21"))["outputs"], {"double": 42})
        self.assertEqual(call(file), "8\n")
        self.assertIn("has no flow 'other'", call("-m", "millrace", "spec", file + ":other", code=1))
        zips = [os.path.join(self.home, name) for name in ("a.zip", "b.zip")]
        for name in zips:
            call("-m", "millrace", "pack", os.path.dirname(python) + "/python/millrace", "-o", name)
        with open(zips[0], "rb") as a, open(zips[1], "rb") as b:
            self.assertEqual(a.read(), b.read())
