"""The client against a running server, found as the working directory and the environment tell.

Not of the unit tests: the end-to-end tests start the server and run this.
"""

import asyncio
import datetime
import importlib
import os
import shutil
import sys
import tempfile
import unittest
from unittest import mock

import millrace
from millrace.client import AsyncClient, Client, ConflictError, InvalidRequestError, NotFoundError, RunFailedError

from . import wheels

FLOW = '''
from millrace import flow, task, wait

@task
def extract(day, rows):
    print("reading", day)
    return list(range(rows))

@task
def double(item):
    return item * 2

@task
def check(double, fail, ctx):
    import tables  # of requirements.txt
    if fail:
        raise ValueError("no price for " + tables.row("Red Jam", "Tea"))
    return tables.row("Red Jam", "Tea")

@flow(name="daily", version="1")
def daily(day: str, rows: int = 3, fail: bool = False):
    items = extract(day, rows)
    check(double.map(items), fail)

@task
def large():
    return "x" * 3_000_000

@task
def measure(large):
    {body}

@flow(name="big", version="1")
def big():
    measure(large())

@flow(name="slow", version="1")
def slow():
    wait("nap", 3600)'''


class TestLive(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="millrace-live-")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        links, cls.source = os.path.join(cls.dir, "links"), os.path.join(cls.dir, "flow")
        os.mkdir(links)
        os.mkdir(cls.source)
        for name in ("slugs", "tables"):
            wheels.build(links, name)
        for name, text in (("flow.py", FLOW.replace("{body}", "pass")), ("requirements.txt", "tables==1.0\n")):
            with open(os.path.join(cls.source, name), "w", encoding="utf-8") as file:
                file.write(text)
        sys.path.insert(0, cls.source)
        cls.addClassCleanup(sys.path.remove, cls.source)
        cls.flows = importlib.import_module("flow")
        cls.client = Client()
        environment = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": links, "MILLRACE_HOME": os.path.join(cls.dir, "home")}
        with mock.patch.dict(os.environ, environment):
            cls.deployed = [cls.client.deploy(f, cls.source) for f in (cls.flows.daily, cls.flows.slow)]
            cls.again = cls.client.deploy(cls.flows.daily, cls.source, name="other", tier="small")

    def test_run_of_deployment(self):
        before = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=1)
        run = self.client.run("daily", day="2026-01-31")
        lines = [e for e in run.logs(follow=True) if e.event_type == "log"]
        self.assertEqual([(e.task, e.message, e.level) for e in lines], [("extract", "reading 2026-01-31", "info")])
        self.assertLess(before, lines[0].time)
        run.wait(timeout=60).raise_for_status()
        self.assertEqual((run.status, run.parameters["rows"], run.flow_version), ("SUCCEEDED", 3, self.deployed[0].flow_version))
        self.assertEqual((run.output("extract"), run.output("double"), run.output("double", 2)), ([0, 1, 2], [0, 2, 4], 4))
        self.assertEqual(run.output("check"), "red-jam|tea")  # by the packages of requirements.txt
        self.assertEqual(run.task("double", 1).status, "SUCCEEDED")
        with self.assertRaises(NotFoundError):
            run.output("missing")
        self.assertIn(run.id, [r.id for r in self.client.runs(flow="daily", since=datetime.timedelta(hours=1))])
        self.assertLessEqual({"daily", "slow"}, {f.flow_name for f in self.client.flows()})
        self.assertEqual(self.client.get(run.id).slug, run.slug)

    def test_retry_of_failed_run(self):
        run = self.client.run(f"daily@{self.deployed[0].flow_version}", day="x", fail=True).wait(timeout=60)
        with self.assertRaisesRegex(RunFailedError, "no price for red-jam"):
            run.raise_for_status()
        self.assertEqual(run.task("check").error_type, "TaskFailedError")
        again = run.retry(failed=True).wait(timeout=60)
        self.assertEqual((again.status, again.raw["parent_run_id"]), ("FAILED", run.id))
        self.assertEqual({r.task_name for r in again.task_runs if r.status == "REUSED"}, {"extract", "double"})
        self.assertEqual(run.retry().wait(timeout=60).status, "FAILED")

    def test_retry_with_latest_code(self):
        def deploy(name, body):
            folder = os.path.join(self.dir, name)
            os.mkdir(folder)
            with open(os.path.join(folder, "flow.py"), "w", encoding="utf-8") as file:
                file.write(FLOW.replace("{body}", body))
            return self.client.deploy(self.flows.big, folder)

        deploy("broken", "raise ValueError('not yet')")
        run = self.client.run("big").wait(timeout=60)
        self.assertEqual(run.status, "FAILED")
        self.assertEqual(len(run.output("large")), 3_000_000)  # by a redirect to the object store
        deployed = deploy("fixed", "return len(large)")
        again = run.retry(failed=True, latest=True)
        self.assertEqual((again.flow_version, again.reused_task_count), (deployed.flow_version, 1))
        again.wait(timeout=60).raise_for_status()
        self.assertEqual(again.output("measure"), 3_000_000)
        self.assertEqual([r.id for r in self.client.runs(deployment="big", status="FAILED")], [run.id])
        self.assertEqual(self.client.get(run.slug).id, run.id)

    def test_same_content_has_same_version(self):
        self.assertEqual(self.again.flow_version, self.deployed[0].flow_version)
        self.assertEqual((self.again.deployment_name, self.deployed[0].deployment_name), ("other", "daily"))
        self.assertRegex(self.again.flow_version, "^dev-[0-9a-f]{12}$")
        self.assertEqual(self.client.request("GET", "/deployments/other")["execution_mode"], "small")
        self.assertEqual(self.client.request("GET", "/deployments/daily")["execution_mode"], "medium")

    def test_idempotency_key_starts_one_run(self):
        first = self.client.run("daily", day="y", idempotency_key="once")
        self.assertEqual(self.client.run("daily", day="y", idempotency_key="once").id, first.id)
        with self.assertRaises(InvalidRequestError):
            self.client.run("daily", day="z", idempotency_key="once")

    def test_errors(self):
        with self.assertRaises(NotFoundError) as caught:
            self.client.run("nosuch")
        self.assertTrue(caught.exception.request_id)
        with self.assertRaisesRegex(InvalidRequestError, "day"):
            self.client.run("daily")
        run = self.client.run("slow")
        with self.assertRaises(TimeoutError):
            run.wait(timeout=0)
        with self.assertRaises(ConflictError):
            run.retry()
        self.assertEqual(run.cancel().wait(timeout=60).status, "CANCELLED")
        with self.assertRaises(millrace.MillraceError):
            run.raise_for_status()

    def test_async_client(self):
        async def main():
            async with AsyncClient() as client:
                bare = os.path.join(self.dir, "bare")
                os.mkdir(bare)
                shutil.copy(os.path.join(self.source, "flow.py"), bare)
                deployed = await client.deploy(self.flows.daily, bare, name="bare", version="by-hand")
                self.assertEqual((deployed.flow_version, deployed.deployment_version), ("by-hand", 1))
                with self.assertRaises(millrace.FlowDefinitionError):
                    await client.deploy(self.flows.daily, os.path.join(self.dir, "missing"))
                runs = await asyncio.gather(*(client.run("daily", day=str(n), rows=n) for n in range(5)))
                await asyncio.gather(*(run.wait(timeout=60) for run in runs))
                messages = [e.message async for e in runs[4].logs(follow=True) if e.event_type == "log"]
                self.assertEqual(messages, ["reading 4"])
                return await asyncio.gather(*(run.output("double") for run in runs))

        self.assertEqual(asyncio.run(main()), [[], [0], [0, 2], [0, 2, 4], [0, 2, 4, 6]])
