import datetime as dt
import os
import tempfile
import unittest
from unittest import mock

import millrace
from millrace import FlowDefinitionError, TaskFailedError, flow, task


@task
def extract(day: dt.date, source="all"):
    return {"rows": [1, 2, 3], "by-day": [[day.isoformat()]], "source": source}


@task
def copy_table(rows, table, *, limit: int = 10):
    return [table, rows, limit]


@task
def scale(item, index, factor=1):
    return item * factor + index


@task
def merge(parts, note=None):
    return {"parts": parts, "note": note}


@flow(tier="small")
def daily(day: dt.date, limit: int = 5):
    rows = extract(day, source="orders")
    copied = copy_table(rows["rows"], table="orders")
    again = copy_table(rows["by-day"][0], "days", limit=7)
    scaled = scale.map(rows["rows"], factor=10)
    merged = merge([copied, again, scaled], note=f"of {day}")
    return {"merged": merged, "first": scaled[0], "label": f"{day}: {limit}", "fixed": [1, None, "x"]}


@flow
def plain(day: str):
    return extract(day)


class Inputs(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        patch = mock.patch.dict(os.environ, {"MILLRACE_HOME": home.name})
        patch.start()
        self.addCleanup(patch.stop)
        quiet = mock.patch("sys.stderr")
        quiet.start()
        self.addCleanup(quiet.stop)

    def test_spec(self):
        spec = daily.spec()
        self.assertEqual(
            [{key: entry.get(key) for key in ("name", "depends_on", "inputs", "map_over", "tier")} for entry in spec["tasks"]],
            [
                {"name": "extract", "depends_on": None, "inputs": {"day": "${{ params.day }}", "source": "orders"}, "map_over": None, "tier": "small"},
                {"name": "copy_table", "depends_on": ["extract"], "map_over": None, "tier": "small",
                 "inputs": {"rows": "${{ tasks.extract.output.rows }}", "table": "orders", "limit": "${{ params.limit }}"}},
                {"name": "copy_table_2", "depends_on": ["extract"], "map_over": None, "tier": "small",
                 "inputs": {"rows": '${{ tasks.extract.output["by-day"][0] }}', "table": "days", "limit": 7}},
                {"name": "scale", "depends_on": ["extract"], "inputs": {"factor": 10}, "map_over": "tasks.extract.output.rows", "tier": "small"},
                {"name": "merge", "depends_on": ["copy_table", "copy_table_2", "scale"], "map_over": None, "tier": "small",
                 "inputs": {"parts": ["${{ tasks.copy_table.output }}", "${{ tasks.copy_table_2.output }}", "${{ tasks.scale.output }}"],
                            "note": "of ${{ params.day }}"}},
            ],
        )
        self.assertEqual(
            spec["result"],
            {"merged": "${{ tasks.merge.output }}", "first": "${{ tasks.scale.output[0] }}", "label": "${{ params.day }}: ${{ params.limit }}",
             "fixed": [1, None, "x"]},
        )
        self.assertEqual(spec["parameters"]["properties"]["day"]["format"], "date")

    def test_arguments_filled_by_name_need_no_inputs(self):
        self.assertEqual(plain.spec()["tasks"], [{"name": "extract", "type": "python", "entrypoint": f"{__name__}:extract"}])
        self.assertEqual(plain.spec()["result"], "tasks.extract.output")

    def test_results(self):
        for returned, want in (("done", '"done"'), ("${{ 1 + 1 }}", "1 + 1"), ("n=${{ 1 }}", '"n=" + string(1)'), (3, 3), ([], []), (None, None)):

            @flow
            def returns():
                merge([])
                return returned

            with self.subTest(returned):
                self.assertEqual(returns.spec().get("result"), want)

    def test_keys_are_sorted_as_in_service(self):
        @flow
        def ordered():
            return merge({"b": 1, "a": [{"d": 1, "c": 2}]})

        self.assertEqual(str(ordered.build().entries["merge"].inputs), "{'parts': {'a': [{'c': 2, 'd': 1}], 'b': 1}}")

    def test_parameter_with_name_of_task(self):
        @flow
        def both(rows: list):
            other = merge.with_options(name="rows")(rows)
            return copy_table(rows, "x").after(other)

        entry = next(e for e in both.build().entries.values() if e.name == "copy_table")
        self.assertEqual(entry.inputs["rows"], "${{ params.rows }}")

    def test_local_run(self):
        run = daily(dt.date(2026, 1, 2))
        rows = [["orders", [1, 2, 3], 5], ["days", ["2026-01-02"], 7], [10, 21, 32]]
        self.assertEqual(run["merge"], {"parts": rows, "note": "of 2026-01-02"})
        self.assertEqual(run.result, {"merged": run["merge"], "first": 10, "label": "2026-01-02: 5", "fixed": [1, None, "x"]})

    def test_repeated_task_gets_unique_names(self):
        @flow
        def often():
            return [copy_table([n], "t") for n in range(3)]

        self.assertEqual(list(often.build().entries), ["copy_table", "copy_table_2", "copy_table_3"])
        self.assertEqual(often().result, [["t", [n], 10] for n in range(3)])

    def test_item_and_index_in_arguments(self):
        @flow
        def mapped():
            return copy_table.map([5, 6], rows="${{ item }}", table="${{ index }}")

        self.assertEqual(mapped().result, [[0, 5, 10], [1, 6, 10]])

    def test_argument_without_value_fails_task(self):
        @flow
        def broken(day: str):
            return copy_table(extract(day)["nothing"], "t")

        with self.assertRaisesRegex(millrace.ExpressionError, r"1 of 2 tasks failed: copy_table \(ExpressionError: inputs: no such key: nothing in `tasks.extract.output.nothing`\)"):
            broken(day="2026-01-02")

    def test_stub(self):
        called = mock.Mock(return_value={"rows": [4], "by-day": [["x"]]})
        run = daily.run(day="2026-01-02", stub={"extract": lambda day: called(day), "scale": [9, 9], "copy_table_2": None})
        called.assert_called_once_with("2026-01-02")
        self.assertEqual(run["merge"]["parts"], [["orders", [4], 5], None, [9, 9]])
        with self.assertRaisesRegex(TaskFailedError, r"extract \(ConnectionError: down\)"):
            daily.run(day="2026-01-02", stub={"extract": ConnectionError("down")})
        with self.assertRaisesRegex(FlowDefinitionError, "stub names 'extrakt'"):
            daily.run(day="2026-01-02", stub={"extrakt": 1})

    def test_stub_takes_annotations(self):
        seen = []

        def fake(day: dt.date):
            seen.append(day)
            return {"rows": [], "by-day": [[]]}

        daily.run(day="2026-01-02", stub={"extract": fake})
        self.assertEqual(seen, [dt.date(2026, 1, 2)])

    def test_positional_parameters(self):
        self.assertEqual(plain("2026-01-02").result["source"], "all")
        for args, kwargs, want in ((("a", "b"), {}, "takes 1 parameters, 2 are given"), (("a",), {"day": "b"}, "gets twice"), ((), {"dya": 1}, "no parameter 'dya'")):
            with self.subTest(want), self.assertRaisesRegex(FlowDefinitionError, want):
                plain(*args, **kwargs)

    def test_timeouts(self):
        for given, want in ((90, 90), ("90s", 90), ("1h30m", 5400), ("1d", 86_400), (dt.timedelta(minutes=2), 120), (0.5, 0.5), ("1.5s", 1.5)):
            with self.subTest(given):
                self.assertEqual(extract.with_options(timeout=given).options["timeout_secs"], want)
        self.assertEqual(extract.with_options(timeout_secs=3).with_options(timeout="4s").options["timeout_secs"], 4)
        with self.assertRaises(TypeError):
            extract.with_options(retry=3)


class Schema(unittest.TestCase):
    def test_parameters_are_checked_as_the_service_does(self):
        @flow
        def checked(days: list[int], at: dt.datetime = dt.datetime(2026, 1, 2), by: dict[str, float] = {}, n: "int | None" = None):
            return merge([days, at, by, n])

        self.assertEqual(checked.parameters["properties"]["at"], {"type": "string", "format": "date-time", "default": "2026-01-02T00:00:00"})
        for given, want in (
            ({"days": ["x"]}, r"'days\[0\]' is 'x', not of type integer"),
            ({"days": [1], "by": {"a": "x"}}, r"'by\.a' is 'x', not of type number"),
            ({"days": [1], "n": "x"}, "not of type integer or null"),
            ({"days": [1], "other": 1}, "no parameter 'other'"),
            ({}, "needs the parameter 'days'"),
        ):
            with self.subTest(want), self.assertRaisesRegex(FlowDefinitionError, want):
                checked(**given)

    def test_default_of_none_admits_null(self):
        @flow
        def lenient(by: dict = None, day: dt.date = None, n: "int | None" = None, anything=None):
            return merge([by, day, n, anything])

        self.assertEqual(lenient.parameters["properties"]["by"], {"type": ["object", "null"], "default": None})
        self.assertEqual(lenient.run(stub={"merge": 1}).status, "SUCCEEDED")
        self.assertEqual(lenient.parameters["properties"]["n"], {"type": ["integer", "null"], "default": None})
        self.assertEqual(lenient.parameters["properties"]["anything"], {"default": None})

    def test_default_of_another_type_is_refused(self):
        @flow
        def wrong(n: int = "many"):
            return merge([n])

        with self.assertRaisesRegex(FlowDefinitionError, "a run without n could not start: the parameter 'n' is 'many', not of type integer"):
            wrong.spec()

    def test_dates(self):
        with self.assertRaisesRegex(FlowDefinitionError, "'day' is 'monday', which does not match"):
            daily(day="monday")
