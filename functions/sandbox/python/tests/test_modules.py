import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLOW = """
    from millrace import flow, task
    from {library} import double

    print("imported")
    import os; os.system("echo by a child")

    @task
    def load(double):
        print("loading", double)
        return double

    @flow
    def daily(n: int = 2):
        return load(double(n))
"""
LIBRARY = """
    from millrace import task

    @task
    def double(n):
        return n * 2
"""


class Modules(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.root = os.path.realpath(home.name)
        self.env = {**os.environ, "PYTHONPATH": PYTHON, "PYTHONDONTWRITEBYTECODE": "1", "MILLRACE_HOME": os.path.join(self.root, ".home")}

    def write(self, name, text=""):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        return path

    def call(self, *arguments, code=0, cwd="."):
        done = subprocess.run([sys.executable, *arguments], env=self.env, cwd=os.path.join(self.root, cwd), capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def spec(self, target, **options):
        done = self.call("-m", "millrace", "spec", target, **options)
        return [task["entrypoint"] for task in json.loads(done.stdout)["tasks"]]

    def test_signals_stop_the_tasks_of_a_run(self):
        self.write("flow.py", """
            import os, time
            from millrace import flow, task

            @task
            def sleeps():
                print("process", os.getpid(), flush=True)
                time.sleep(600)

            @flow
            def long():
                sleeps()
        """)
        for signals in ((signal.SIGTERM,), (signal.SIGINT, signal.SIGTERM)):
            with self.subTest(signals=signals):
                run = subprocess.Popen([sys.executable, "-m", "millrace", "run", "flow.py"], env=self.env, cwd=self.root, stderr=subprocess.PIPE, text=True)
                self.addCleanup(run.stderr.close)
                self.addCleanup(run.kill)
                task = next(int(line.split()[-1]) for line in run.stderr if "process " in line)
                for number in signals:
                    run.send_signal(number)
                said = run.stderr.read()
                self.assertEqual(run.wait(), 130, said)
                self.assertIn("Task sleeps stopped", said)
                self.assertNotIn("Traceback", said)
                self.assertTrue(said.endswith("interrupted\n"), said)
                with self.assertRaises(ProcessLookupError):
                    os.kill(task, 0)

    def test_output_of_imports_is_not_in_spec(self):
        self.write("lib.py", LIBRARY)
        self.write("flow.py", FLOW.format(library="lib"))
        done = self.call("-m", "millrace", "spec", "flow.py")
        self.assertEqual(len(json.loads(done.stdout)["tasks"]), 2)
        self.assertIn("imported\n", done.stderr)
        self.assertIn("by a child\n", done.stderr)
        self.assertEqual(self.call("-m", "millrace", "spec", "flow.py", "-o", "spec.json").stdout, "")
        with open(os.path.join(self.root, "spec.json"), encoding="utf-8") as file:
            self.assertEqual(file.read(), done.stdout)
        self.assertEqual(json.loads(self.call("-m", "millrace", "run", "flow.py").stdout)["result"], 4)

    def test_packages(self):
        for markers in (True, False):
            with self.subTest(markers=markers):
                base = "src" if markers else "bare/src"
                if markers:
                    for name in ("acme", "acme/flows", "acme/lib"):
                        self.write(f"src/{name}/__init__.py")
                self.write(f"{base}/acme/lib/tables.py", LIBRARY)
                file = self.write(f"{base}/acme/flows/daily.py", FLOW.format(library="..lib.tables"))
                cwd = "." if markers else "bare"
                want = ["acme.lib.tables:double", "acme.flows.daily:load"]
                self.assertEqual(self.spec(os.path.relpath(file, os.path.join(self.root, cwd)), cwd=cwd), want)
                self.assertEqual(self.spec("acme.flows.daily:daily", cwd=cwd), want)
                self.assertEqual(self.spec("acme.flows.daily:daily", cwd=os.path.join(cwd, "src")), want)
                self.assertEqual(json.loads(self.call("-m", "millrace", "run", "acme.flows.daily", cwd=cwd).stdout)["result"], 4)
                self.call("-m", "millrace", "pack", file, "-o", os.path.join(self.root, "a.zip"), cwd=cwd)
                import zipfile

                with zipfile.ZipFile(os.path.join(self.root, "a.zip")) as archive:
                    self.assertIn("acme/flows/daily.py", archive.namelist())

    def test_import_errors(self):
        self.write("sub/json.py", LIBRARY)
        self.write("two-words.py", LIBRARY)
        self.write("lib.py", LIBRARY)
        self.write("broken.py", "import nothing_of_that_name")
        for target, want in (
            ("gone.py", "there is no file 'gone.py'"),
            ("gone.flow", "there is no module 'gone.flow'"),
            ("sub/json.py", "is the name of another module"),
            ("two-words.py", "is no name of a module"),
            ("lib.py", "has no flow"),
            ("broken.py", "No module named 'nothing_of_that_name'"),
        ):
            with self.subTest(target):
                self.assertIn(want, self.call("-m", "millrace", "spec", target, code=1).stderr)

    def test_dates_as_defaults(self):
        self.write("flow.py", """
            import datetime as dt
            from millrace import flow, task

            @task
            def load(day: dt.date):
                return day.year

            @flow
            def daily(day: dt.date = dt.date(2026, 1, 2)):
                return load(day)

            if __name__ == "__main__":
                print(daily().result)
        """)
        spec = json.loads(self.call("-m", "millrace", "spec", "flow.py").stdout)
        self.assertEqual(spec["parameters"]["properties"]["day"]["default"], "2026-01-02")
        self.assertEqual(self.call("flow.py").stdout, "2026\n")

    def test_failed_run_hides_frames_of_package(self):
        self.write("flow.py", """
            from millrace import flow, task

            @task
            def load():
                raise ValueError("no price")

            @flow
            def daily():
                load()

            daily()
        """)
        told = self.call("flow.py", code=1).stderr.split("Traceback (most recent call last):\n")
        self.assertEqual(len(told), 3, "the task's and the program's")
        self.assertTrue(told[2].endswith("millrace.TaskFailedError: 1 of 1 tasks failed: load (ValueError: no price)\n"))
        self.assertNotIn("/millrace/", told[2])
        self.assertIn("daily()", told[2])
