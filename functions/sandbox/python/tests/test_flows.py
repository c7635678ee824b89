import typing
import unittest

import millrace
from millrace import _context
from millrace import DependencyCycleError, FlowDefinitionError, flow, task


@task(retries=2, retry_backoff={"delay_secs": 5, "factor": 2}, timeout_secs=60)
def extract(ctx, day):
    return []


@task
def each(item, index, extract=None):
    return item


@task(condition="size(tasks.each.output) > 0", trigger_rule="none_failed")
def load(each, day, limit=5):
    return None


@task(name="on-fail")
def on_fail(ctx):
    pass


@task
def bare():
    return 1


@task(depends_on=[bare])
def after_bare():
    return 2


@task(secrets=["EXTRA"], config={"note": "kept", "secrets": {"OWN": "${{ secrets.OWN }}"}})
def reader(ctx, name="x"):
    def inner():
        return ctx.secret("NESTED")

    other = {"secret": "NOT_ONE"}
    other.get("secret")
    return [ctx.secret("TOKEN"), ctx.secret(name), inner(), [ctx.secret("LISTED") for _ in range(1)]]


class Secrets(unittest.TestCase):
    def test_secrets_are_found_in_function(self):
        @flow
        def reads():
            reader()
            bare()

        spec = {entry["name"]: entry for entry in reads.spec()["tasks"]}
        names = ("EXTRA", "LISTED", "NESTED", "OWN", "TOKEN")
        self.assertEqual(spec["reader"]["config"], {"note": "kept", "secrets": {name: "${{ secrets.%s }}" % name for name in names}})
        self.assertNotIn("config", spec["bare"])

    def test_names_are_checked(self):
        for bad in ("1x", "a-b", "", 7):
            with self.assertRaisesRegex(FlowDefinitionError, "no name of a secret"):
                task(secrets=[bad])(bare.__millrace_function__)

    def test_secret_that_is_not_declared(self):
        with self.assertRaisesRegex(millrace.TaskFailedError, r"add it to @task\(secrets"):
            _context.Context({"secrets": {}}, None).secret("TOKEN")


class Spec(unittest.TestCase):
    def test_complete_spec(self):
        @flow(name="daily", version="2", timeout_secs=3600, on_failure=on_fail)
        def daily(day: str, limit: int = 3, mode: typing.Optional[str] = None):
            rows = extract(day)
            good = millrace.transform("good", "tasks.extract.output.filter(r, r.ok)")
            done = load(each.map(good), day)
            pause = millrace.wait("pause", 5, depends_on=done)
            millrace.http("tell", f"https://example.com/{day}", method="POST", json={"rows": rows}).after(pause)

        module = __name__
        self.assertEqual(
            daily.spec(),
            {
                "parameters": {
                    "type": "object",
                    "properties": {
                        "day": {"type": "string"},
                        "limit": {"type": "integer", "default": 3},
                        "mode": {"type": ["string", "null"], "default": None},
                    },
                    "required": ["day"],
                    "additionalProperties": False,
                },
                "timeout_secs": 3600,
                "tasks": [
                    {"name": "extract", "type": "python", "entrypoint": f"{module}:extract", "retries": 2,
                     "retry_backoff": {"delay_secs": 5, "factor": 2}, "timeout_secs": 60},
                    {"name": "good", "type": "transform", "depends_on": ["extract"],
                     "config": {"expression": "tasks.extract.output.filter(r, r.ok)"}},
                    {"name": "each", "type": "python", "entrypoint": f"{module}:each", "depends_on": ["good"], "map_over": "tasks.good.output"},
                    {"name": "load", "type": "python", "entrypoint": f"{module}:load", "depends_on": ["each"],
                     "trigger_rule": "none_failed", "condition": "size(tasks.each.output) > 0"},
                    {"name": "pause", "type": "wait", "depends_on": ["load"], "config": {"seconds": 5}},
                    {"name": "tell", "type": "http", "depends_on": ["pause", "extract"],
                     "config": {"method": "POST", "url": "https://example.com/${{ params.day }}", "json": {"rows": "${{ tasks.extract.output }}"}}},
                ],
                "on_failure": {"name": "on-fail", "type": "python", "entrypoint": f"{module}:on_fail"},
            },
        )
        self.assertIn('"tasks"', daily.to_json())

    def test_task_named_only_by_decorator(self):
        @flow
        def two():
            after_bare()

        self.assertEqual([t["name"] for t in two.spec()["tasks"]], ["after_bare", "bare"])
        self.assertEqual(two.spec()["tasks"][0]["depends_on"], ["bare"])

    def test_calls_outside_of_flow_run_function(self):
        self.assertEqual(bare(), 1)

    def test_map_over_a_list(self):
        @flow
        def listed():
            each.map([1, "two"])

        self.assertEqual(listed.spec()["tasks"][0]["map_over"], '[1, "two"]')

    def refused(self, body, want, error=FlowDefinitionError):
        with self.assertRaisesRegex(error, want):
            flow(body).build()

    def test_invalid_flows(self):
        def missing():
            extract()

        def unmapped():
            each()

        def unwired(day):
            extract(day)
            each()
            load(day=day)

        def value(day):
            if extract(day):
                bare()

        def unknown():
            bare.with_options(depends_on=["nobody"])()

        def nested():
            @task
            def inside():
                pass

            inside()

        def same_name():
            bare()
            millrace.wait("bare", 1)

        def near(day):
            extract(dya=day)

        def compared(day):
            if day == "monday":
                bare()

        def syntax():
            bare.with_options(condition="1 +")()

        def nobody(day):
            extract("${{ tasks.nobody.output }}")

        def given_ctx(day):
            extract(day, ctx=1)

        self.refused(same_name, "two tasks named 'bare'")
        self.refused(near, r"has no argument 'dya' \(did you mean 'day'\?\)")
        self.refused(compared, "has no value while")
        self.refused(syntax, r"task 'bare': condition: unexpected end of '1 \+'")
        self.refused(nobody, "reads 'nobody' in 'tasks.nobody.output', which is no task of the flow")
        self.refused(lambda: each.map([object()]), "is of type builtins.object, which is not JSON")
        self.refused(given_ctx, "gets 'ctx' from the runner")
        self.refused(missing, "needs the argument 'day'")
        self.refused(unmapped, r"use each\.map")
        self.refused(unwired, "needs the argument")
        self.refused(value, "has no value while")
        self.refused(unknown, "'nobody', which is no task")
        self.refused(lambda: None, "has no task")
        with self.assertRaisesRegex(FlowDefinitionError, "inside a function"):
            flow(nested).spec()
        with self.assertRaisesRegex(FlowDefinitionError, "inside a function"):
            flow(nested).run()
        for options in ({"retries": -1}, {"timeout_secs": 86_401}, {"timeout": "soon"}, {"timeout": 5, "timeout_secs": 5}, {"tier": "huge"}, {"trigger_rule": "sometimes"}, {"name": "1st"}, {"retry_backoff": {"delay": 1}}):
            with self.subTest(options), self.assertRaises(FlowDefinitionError):
                task(**options)(lambda: None)

    def test_cycle_is_named(self):
        @task(depends_on="c")
        def a():
            pass

        @task(depends_on="a")
        def b():
            pass

        @task(depends_on="b")
        def c():
            pass

        def circle():
            a(), b(), c()

        with self.assertRaises(DependencyCycleError) as caught:
            flow(circle).build()
        cycle = caught.exception.cycle
        self.assertEqual(cycle[0], cycle[-1])
        self.assertEqual(set(cycle), {"a", "b", "c"})
        self.assertIn(" -> ", str(caught.exception))

    def test_long_chains(self):
        def chain():
            last = None
            for i in range(3000):
                last = bare.with_options(name=f"t{i}", depends_on=[] if last is None else [last])()

        self.assertEqual(len(flow(chain).build().entries), 3000)
