"""The client against a server that answers as told: refusals, cuts, limits, redirects, credentials."""

import asyncio
import datetime
import email.utils
import io
import json
import os
import shutil
import socket
import tempfile
import unittest
import zipfile
from unittest import mock

import millrace
from millrace import client as api
from millrace.client import AsyncClient, Client, _calls, _settings

from . import wheels
from .fakeserver import CUT, HALF, FakeServer

KEY = "svc_0123456789abcdef"
RUN = {
    "run_id": "01J", "run_slug": "brisk-jade-beaver-8007", "flow_name": "daily", "flow_version": "1", "deployment": "daily",
    "environment": "default", "status": "QUEUED", "created_at": "2026-01-31T06:00:00.123Z",
}


def task(name, output=None, **more):
    return {"task_name": name, "task_run_id": "t", "map_index": None, "attempt": 1, "status": "SUCCEEDED", "output": output, **more}


class Fake(unittest.TestCase):
    def setUp(self):
        # No environment of this machine, and no time spent on pauses.
        patch = mock.patch.dict(os.environ, {"HOME": "/nonexistent"}, clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        self.slept = []
        patch = mock.patch("time.sleep", self.slept.append)
        patch.start()
        self.addCleanup(patch.stop)

    def serve(self, *answers):
        server = FakeServer(*answers)
        self.addCleanup(server.close)
        return server

    def client(self, *answers, **options):
        self.server = self.serve(*answers)
        return Client(self.server.url, KEY, **options)


class TestCalls(Fake):
    def test_run_by_deployment_and_by_version(self):
        client = self.client((200, RUN))
        run = client.run("daily", day="2026-01-31")
        self.assertEqual((run.id, run.slug, run.status, run.ended), ("01J", RUN["run_slug"], "QUEUED", False))
        self.assertEqual(run.created_at, datetime.datetime(2026, 1, 31, 6, 0, 0, 123000, datetime.timezone.utc))
        client.run("daily@2", {"environment": "a parameter"}, environment="prod", tier="small", idempotency_key="mine")
        (method, path, headers, body), (_, _, second, other) = self.server.requests
        self.assertEqual((method, path, headers["Authorization"]), ("POST", "/runs", "Bearer " + KEY))
        self.assertEqual(json.loads(body), {"deployment": "daily", "parameters": {"day": "2026-01-31"}})
        self.assertEqual(json.loads(other), {
            "flow_name": "daily", "flow_version": "2", "parameters": {"environment": "a parameter"}, "environment": "prod", "execution_mode": "small",
        })
        self.assertEqual(second["Idempotency-Key"], "mine")
        self.assertGreaterEqual(len(headers["Idempotency-Key"]), 32)

    def test_wait_returns_at_end_of_run(self):
        failed = {**RUN, "status": "FAILED", "error_message": "no price", "task_runs": [
            task("load", attempt=1, status="FAILED"), task("load", attempt=2, status="FAILED", exception="ValueError", error_message="no price"),
        ]}
        client = self.client((200, RUN), (200, {**RUN, "status": "RUNNING"}), (200, failed))
        run = client.run("daily").wait()
        self.assertEqual((run.status, run.ended, run.task("load").attempt, run.task("load").exception), ("FAILED", True, 2, "ValueError"))
        with self.assertRaises(KeyError):
            run.task("load", 3)
        with self.assertRaisesRegex(api.RunFailedError, "brisk-jade-beaver-8007 of daily is FAILED: no price") as caught:
            run.raise_for_status()
        self.assertIs(caught.exception.run, run)
        self.assertEqual(len(self.slept), 1)

    def test_restart_while_a_run_is_watched(self):
        done = (200, {**RUN, "status": "SUCCEEDED"})
        down = [CUT] * 12
        client = self.client((200, RUN), *down, done)
        self.assertEqual(client.get("01J").wait().status, "SUCCEEDED")
        last = {"events": [{"timestamp": RUN["created_at"], "message": "last", "event_type": "log"}], "source": "archive"}
        client = self.client((200, RUN), *down, (503, b""), (200, last))
        self.assertEqual([e.message for e in client.get("01J").logs(follow=True)], ["last"])

    def test_server_that_stays_away(self):
        for options, read in (({}, "wait"), ({}, "logs"), ({"retries": 0}, "wait")):
            with self.subTest(read=read, **options):
                run = self.client((200, RUN), CUT, **options).get("01J")
                self.slept.clear()
                with self.assertRaises(api.ConnectionFailedError):
                    run.wait() if read == "wait" else list(run.logs(follow=True))
                self.assertEqual(sum(self.slept) >= _calls.PATIENCE, not options)
                self.assertEqual(self.slept == [], bool(options))
        run = self.client((200, RUN), CUT).get("01J")
        with self.assertRaises(api.ConnectionFailedError):
            run.wait(timeout=0)
        run = self.client((200, RUN), (500, b"")).get("01J")
        with self.assertRaises(api.ServerError):
            run.wait()

    def test_wait_times_out(self):
        client = self.client((200, RUN))
        with self.assertRaisesRegex(TimeoutError, "is QUEUED after 0 s; it goes on"):
            client.get("01J").wait(timeout=0)

    def test_retry_and_cancel(self):
        client = self.client((200, RUN))
        run = client.get("a/b?c")
        run.retry()
        run.retry(failed=True)
        run.retry(failed=True, latest=True)
        with self.assertRaises(ValueError):
            run.retry(latest=True)
        self.server.answers = [(200, {"run_id": "01J", "status": "CANCELLATION_REQUESTED"})]
        self.assertEqual(run.cancel().status, "CANCELLATION_REQUESTED")
        self.assertEqual([r[1] for r in self.server.requests], [
            "/runs/a%2Fb%3Fc", "/runs/01J/retry", "/runs/01J/retry-from-failed", "/runs/01J/retry-from-failed?flow_version=latest", "/runs/01J/cancel",
        ])

    def test_lists(self):
        client = self.client((200, {"items": [RUN]}))
        since = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
        self.assertEqual([r.slug for r in client.runs(flow="daily", status="FAILED", since=since)], [RUN["run_slug"]])
        self.assertEqual(self.server.requests[0][1], "/runs?flow_name=daily&status=FAILED&since=2025-12-31T23%3A00%3A00.000Z&limit=100")
        flow = {"flow_name": "daily", "latest_version": "2", "version_count": 2, "created_at": "2026-01-31T06:00:00Z", "updated_at": "2026-01-31T06:00:00Z"}
        self.server.answers = [(200, {"items": [flow], "next_token": "t&1"}), (200, {"items": [], "next_token": "u"}), (200, {"items": [flow]})]
        self.assertEqual([f.latest_version for f in client.flows()], ["2", "2"])
        self.assertEqual([r[1] for r in self.server.requests[1:]], ["/flows", "/flows?next_token=t%261", "/flows?next_token=u"])

    def test_logs(self):
        event = lambda n: {"event_type": "log", "message": str(n), "timestamp": "2026-01-31T06:00:00.5Z", "level": "info", "task_name": "load", "map_index": 3}
        pages = [
            (200, {"events": [event(1)], "next_token": "a", "source": "live"}), (200, {"events": [], "next_token": "b", "source": "live"}),
            (200, {"events": [event(2)], "next_token": "c", "source": "live"}), (200, {"events": [], "next_token": "d", "source": "archive"}),
            (200, {"events": [event(3)], "source": "archive"}),
        ]
        client = self.client((200, RUN))
        run = client.get("01J")
        self.server.answers = list(pages)
        events = list(run.logs(task="load"))
        self.assertEqual([(e.message, e.task, e.map_index, e.level) for e in events], [("1", "load", 3, "info")])
        self.assertEqual(str(events[0]), "2026-01-31T06:00:00.500+00:00 INFO load[3] 1")
        self.assertEqual(self.slept, [])
        self.server.answers = list(pages)
        self.assertEqual([e.message for e in run.logs(follow=True)], ["1", "2", "3"])
        self.assertEqual(len(self.slept), 1)
        self.assertEqual([r[1] for r in self.server.requests[1:4]], [
            "/runs/01J/logs?task_name=load", "/runs/01J/logs?task_name=load&next_token=a", "/runs/01J/logs",
        ])

    def test_outputs(self):
        client = self.client((200, RUN))
        run = client.get("01J")
        self.server.answers = [(200, b'\n  {"n": 12345678901234567890}')]
        self.assertEqual(run.output("report", 2, attempt=1), {"n": 12345678901234567890})
        self.assertEqual(self.server.requests[-1][1], "/runs/01J/tasks/report/output?map_index=2&attempt=1")
        self.server.answers = [(404, {"detail": "no such task"})]
        with self.assertRaises(api.NotFoundError):
            run.output("a/b")
        self.assertEqual(self.server.requests[-1][1], "/runs/01J/tasks/a%2Fb/output")


class TestErrors(Fake):
    def test_status_selects_class(self):
        for status, kind in (
            (400, api.InvalidRequestError), (401, api.NotSignedInError), (403, api.NotAllowedError), (404, api.NotFoundError),
            (409, api.ConflictError), (413, api.InvalidRequestError), (418, api.APIError), (422, api.InvalidRequestError), (500, api.ServerError),
        ):
            client = self.client((status, {"detail": "because"}))
            with self.subTest(status=status), self.assertRaises(millrace.MillraceError) as caught:
                client.get("01J")
            error = caught.exception
            self.assertIs(type(error), kind)
            self.assertEqual((error.status, error.detail, error.request_id), (status, "because", "req-1"))
            self.assertEqual(str(error), f"GET /runs/01J: {status}: because (request req-1)")
            self.assertEqual(len(self.server.requests), 1)

    def test_validation_errors_name_fields(self):
        entry = {"type": "missing", "loc": ["body", "parameters", "day"], "msg": "Field required", "input": None}
        with self.assertRaisesRegex(api.InvalidRequestError, "body.parameters.day: Field required") as caught:
            self.client((422, {"detail": [entry]})).run("daily")
        self.assertEqual(caught.exception.errors, [entry])

    def test_page_of_proxy_is_not_shown(self):
        with self.assertRaisesRegex(api.ServerError, "500: Internal Server Error"):
            self.client((500, b"<html>secret</html>")).get("01J")

    def test_short_retry_after_is_respected(self):
        soon = email.utils.format_datetime(datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=30))
        for after, least in (("7", 7), (soon, 20)):
            self.slept.clear()
            client = self.client((429, {"detail": "runs-per-minute"}, {"Retry-After": after}), (200, RUN))
            # A retry of a run has no key; what a limit refuses has changed nothing.
            millrace.client.Run(client, RUN).retry()
            self.assertEqual(len(self.server.requests), 2)
            self.assertGreaterEqual(self.slept[0], least)
            self.assertLessEqual(self.slept[0], 31)

    def test_long_retry_after_raises(self):
        for answer in ((429, {"detail": "x"}, {"Retry-After": "3600"}), (503, {"detail": "x"}, {"Retry-After": "61"})):
            with self.assertRaises(api.APIError) as caught:
                self.client(answer).get("01J")
            self.assertEqual((len(self.server.requests), self.slept, caught.exception.status), (1, [], answer[0]))
            self.assertGreater(caught.exception.retry_after, 60)

    def test_retries_end(self):
        with self.assertRaises(api.RateLimitedError):
            self.client((429, {"detail": "x"}), retries=2).get("01J")
        self.assertEqual(len(self.server.requests), 3)

    def test_only_safe_requests_are_retried(self):
        for trouble in (CUT, HALF, (502, b""), (503, {"detail": "busy"}, {"Retry-After": "1"}), (504, b"")):
            client = self.client(trouble, (200, RUN))
            client.get("01J")
            self.server.answers = [trouble, (200, RUN)]
            client.run("daily")
            keys = [r[2].get("Idempotency-Key") for r in self.server.requests]
            self.assertEqual(keys[2], keys[3])
            self.assertTrue(keys[2])
            self.server.answers = [trouble, (200, RUN)]
            with self.assertRaises((api.ConnectionFailedError, api.ServerError)):
                millrace.client.Run(client, RUN).retry()
            self.assertEqual(len(self.server.requests), 5)

    def test_pending_idempotency_key_is_retried(self):
        accepting = (409, {"detail": "A request with this Idempotency-Key is being accepted"})
        client = self.client(CUT, accepting, (200, RUN))
        self.assertEqual(client.run("daily").id, "01J")
        self.server.answers = [accepting, (200, RUN)]
        with self.assertRaises(api.ConflictError):
            client.run("daily", idempotency_key="somebody else's")

    def test_unreachable_server(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        client = Client(f"http://127.0.0.1:{port}", KEY, retries=2)
        with self.assertRaisesRegex(api.ConnectionFailedError, f"GET /runs/01J: http://127.0.0.1:{port}: .*refused") as caught:
            client.get("01J")
        self.assertTrue(caught.exception.unsent)
        self.assertIsInstance(caught.exception, ConnectionError)
        self.assertEqual(len(self.slept), 2)

    def test_truncated_response(self):
        with self.assertRaisesRegex(api.ConnectionFailedError, "cut off after 8 bytes"):
            self.client(HALF, retries=0).get("01J")


class TestCredentials(Fake):
    def test_redirects_do_not_carry_credentials(self):
        store = self.serve((200, {"large": True}))
        location = f"http://localhost:{store.port}/o?X-Amz-Signature=abc"
        client = self.client((200, RUN), (302, b"", {"Location": location}))
        client._transport._settings = _settings.Settings(self.server.url, KEY, "org-1")
        self.assertEqual(client.get("01J").output("report"), {"large": True})
        self.assertEqual(self.server.requests[1][2]["X-Org-Id"], "org-1")
        self.assertEqual(store.requests[0][1], "/o?X-Amz-Signature=abc")
        for name in ("Authorization", "X-Org-Id", "Cookie"):
            self.assertNotIn(name, store.requests[0][2])

    def test_redirects_that_are_not_followed(self):
        store = self.serve((200, {}))
        cases = [
            ("get", {"Location": "file:///etc/passwd"}), ("get", {"Location": "ftp://x/y"}),
            ("run", {"Location": f"{store.url}/x"}),
        ]
        for method, headers in cases:
            for status in (302, 307, 308):
                with self.subTest(method=method, status=status), self.assertRaises(millrace.MillraceError):
                    getattr(self.client((status, b"", headers), retries=0), method)("01J")
        loop = self.client(lambda *_: (302, b"", {"Location": self.server.url + "/again"}), retries=0)
        with self.assertRaises(api.APIError):
            loop.get("01J")
        self.assertLessEqual(len(self.server.requests), 12)
        self.assertEqual(store.requests, [])

    def test_no_message_shows_a_presigned_url(self):
        for answer in ((403, b"<Error>X-Amz-Signature=abc</Error>"), CUT):
            store = self.serve(answer)
            client = self.client((302, b"", {"Location": f"{store.url}/o?X-Amz-Signature=abc"}), retries=0)
            with self.assertRaises(millrace.MillraceError) as caught:
                client.get("01J")
            self.assertNotIn("abc", f"{caught.exception!r} {caught.exception} {vars(caught.exception)}")

    def test_no_representation_shows_the_key(self):
        client = self.client((200, RUN))
        run = client.run("daily")
        shown = f"{client!r} {run!r} {client._transport._settings!r} {run.raw}"
        self.assertNotIn(KEY, shown)
        self.assertEqual(repr(run), "<Run brisk-jade-beaver-8007 of daily 1: QUEUED>")

    def test_invalid_key_is_not_shown(self):
        for key in (KEY + "\r\nX: y", KEY + "é"):
            with self.assertRaises(api.NoServerError) as caught:
                Client("http://127.0.0.1:1", key)
            self.assertNotIn(KEY, str(caught.exception))

    def test_invalid_urls(self):
        for url in ("http://me:pw@h", "ftp://h", "h:80", "", "http://", "http://h/?key=pw", "http://h#x", "http://h:x", "http://[::1"):
            with self.subTest(url=url), self.assertRaises(api.NoServerError) as caught:
                Client(url or "x", KEY)
            self.assertNotIn("pw", str(caught.exception))


class TestProxies(Fake):
    def test_proxy_is_not_used_for_loopback(self):
        proxy = self.serve((200, RUN))
        server = self.serve((200, RUN))
        for name in ("http_proxy", "HTTP_PROXY"):
            os.environ[name] = proxy.url
        Client(server.url, KEY).get("01J")
        Client(f"http://localhost:{server.port}", KEY).get("01J")
        self.assertEqual((len(proxy.requests), len(server.requests)), (0, 2))
        Client("http://millrace.example:8080", KEY).get("01J")
        self.assertEqual(proxy.requests[0][1], "http://millrace.example:8080/runs/01J")
        os.environ["no_proxy"] = "millrace.invalid"
        with self.assertRaises(api.ConnectionFailedError):
            Client("http://millrace.invalid", KEY, retries=0).get("01J")
        self.assertEqual(len(proxy.requests), 1)


class TestFinding(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="millrace-client-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.config = os.path.join(self.dir, "config")
        self.below = os.path.join(self.dir, "project", "a", "b")
        os.makedirs(self.below)
        self.environ = {"XDG_CONFIG_HOME": self.config}
        patch = mock.patch("sys.platform", "linux")  # macOS has another folder
        patch.start()
        self.addCleanup(patch.stop)

    def credentials(self, url="http://local", key="svc_local"):
        path = os.path.join(self.dir, "project", ".millrace")
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "credentials.json"), "w", encoding="utf-8") as file:
            json.dump({"base_url": url, "org_id": "o", "api_key": key, "local_secret": "s"}, file)

    def contexts(self, current="prod"):
        os.makedirs(os.path.join(self.config, "millrace"), exist_ok=True)
        known = {"prod": {"url": "https://prod/", "api_key": "svc_prod"}, "test": {"url": "https://test", "api_key": "svc_test", "org": "lab"}}
        with open(os.path.join(self.config, "millrace", "contexts.json"), "w", encoding="utf-8") as file:
            json.dump({"current": current, "contexts": known}, file)

    def found(self, *arguments, **more):
        environ = {**self.environ, **more.pop("environ", {})}
        s = _settings.find(*arguments, environ=environ, directory=self.below, **more)
        return s.url, s.api_key, s.org

    def test_first_source_is_used(self):
        with self.assertRaisesRegex(api.NoServerError, "millrace serve"):
            self.found()
        self.contexts()
        self.assertEqual(self.found(), ("https://prod", "svc_prod", None))
        self.credentials()
        self.assertEqual(self.found(), ("http://local", "svc_local", None))
        environ = {"MILLRACE_URL": "https://env", "MILLRACE_API_KEY": "svc_env", "MILLRACE_ORG": "acme"}
        self.assertEqual(self.found(environ=environ), ("https://env", "svc_env", "acme"))
        self.assertEqual(self.found("https://env/", environ=environ), ("https://env", "svc_env", "acme"))
        self.assertEqual(self.found("https://argument", "svc_argument", environ=environ), ("https://argument", "svc_argument", None))
        self.assertEqual(self.found(context="test", environ=environ), ("https://test", "svc_test", "lab"))
        with self.assertRaisesRegex(api.NoServerError, "known: prod, test"):
            self.found(context="other")
        with self.assertRaises(api.NoServerError):
            self.found("https://x", context="test")

    def test_key_is_sent_to_its_server_only(self):
        self.contexts()
        self.credentials()
        environ = {"MILLRACE_URL": "https://env", "MILLRACE_API_KEY": "svc_env", "MILLRACE_ORG": "acme"}
        self.assertEqual(self.found("https://other", environ=environ), ("https://other", None, None))
        self.assertEqual(self.found("http://local/"), ("http://local", "svc_local", None))
        self.assertEqual(self.found("https://prod"), ("https://prod", "svc_prod", None))
        self.assertEqual(self.found(environ={"MILLRACE_URL": "https://env"}), ("https://env", None, None))
        self.assertEqual(self.found(environ={"MILLRACE_API_KEY": "svc_env"}), ("http://local", "svc_env", None))

    def test_invalid_files(self):
        self.credentials()
        path = os.path.join(self.dir, "project", ".millrace", "credentials.json")
        for text in ("{", "[]", "{}", '{"base_url": 1}'):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            with self.subTest(text=text), self.assertRaisesRegex(api.NoServerError, "credentials.json"):
                self.found()

    def test_file_of_other_user_is_rejected(self):
        self.credentials()
        theirs = os.stat_result((0o100600, 1, 1, 1, os.geteuid() + 4242, 4242, 2, 0, 0, 0))
        with mock.patch("os.stat", return_value=theirs), self.assertRaisesRegex(api.NoServerError, "another user"):
            self.found()


class TestAsync(Fake):
    def test_async_calls(self):
        event = {"event_type": "log", "message": "hello", "timestamp": "2026-01-31T06:00:00Z"}
        done = {**RUN, "status": "SUCCEEDED", "task_runs": []}

        def answer(method, path):
            if path.endswith("/logs"):
                return 200, {"events": [event], "source": "archive"}
            if path.endswith("/output"):
                return 200, [1, 2]
            if path == "/flows":
                return 200, {"items": []}
            if path.startswith("/runs?"):
                return 200, {"items": [RUN]}
            return 200, RUN if method == "POST" else done

        server = self.serve((429, {"detail": "x"}), (503, b""), answer)

        async def main():
            async with AsyncClient(server.url, KEY) as client:
                run = await client.run("daily", day=1)
                self.assertEqual([e.message async for e in run.logs(follow=True)], ["hello"])
                (await run.wait(timeout=5)).raise_for_status()
                self.assertEqual(await run.output("report"), [1, 2])
                again, = {(await run.retry(failed=True, latest=True)).id}
                self.assertEqual((await client.get(again)).status, "SUCCEEDED")
                await run.cancel()
                await run.refresh()
                self.assertEqual((await client.flows(), len(await client.runs(limit=1))), ([], 1))
                self.assertNotIn(KEY, repr(client))
                return await asyncio.gather(*(client.get("01J") for _ in range(8)))

        self.assertEqual(len(asyncio.run(main())), 8)
        self.assertEqual(self.slept, [])  # the event loop was never blocked

    def test_async_errors_and_cancellation(self):
        server = self.serve((404, {"detail": "no such run"}))

        async def main():
            async with AsyncClient(server.url, KEY) as client:
                with self.assertRaises(api.NotFoundError):
                    await client.get("01J")
                server.answers = [(200, RUN)]
                waiting = asyncio.create_task((await client.get("01J")).wait())
                while len(server.requests) < 3:
                    await asyncio.sleep(0)
                waiting.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiting

        asyncio.run(main())


class TestDeploy(Fake):
    def test_packages_are_for_servers_runtime(self):
        folder = tempfile.mkdtemp(prefix="millrace-deploy-test-")
        self.addCleanup(shutil.rmtree, folder)
        links, source = os.path.join(folder, "links"), os.path.join(folder, "source")
        os.mkdir(links)
        os.mkdir(source)
        for tag in ("py3-none-manylinux2014_aarch64", "py3-none-manylinux2014_x86_64"):
            wheels.build(links, "native", tag=tag)
        for name, text in (("flow.py", "x = 1\n"), ("requirements.txt", "native\n")):
            with open(os.path.join(source, name), "w", encoding="utf-8") as file:
                file.write(text)
        os.environ.update({
            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": links, "PIP_CONFIG_FILE": os.devnull, "MILLRACE_HOME": folder, "HOME": folder, "PATH": "",
        })
        store = self.serve((200, b"", {"ETag": '"e1"'}), (200, b"", {"ETag": '"e2"'}))

        def answer(method, path):
            if path == "/backends":
                return 200, {"items": [{"name": "http", "runtime": None}, {"name": "python", "runtime": {"platform": "linux/arm64", "python_version": "3.13"}}]}
            if path == "/artifacts/initiate":
                parts = [{"part_number": n, "upload_url": f"{store.url}/{n}?X-Amz-Signature=abc"} for n in (1, 2)]
                return 200, {"upload_id": "u", "artifact_key": "k", "part_size": 600, "parts": parts}
            return 200, {**names, "deployment_version": 3, "environment": "default", "code_hash": "h"}

        names = {"flow_name": "daily", "flow_version": "dev-1", "deployment_name": "daily"}
        flow = mock.Mock(to_json=lambda: '{"tasks": []}')
        flow.name = "daily"
        client = self.client(answer)
        self.assertEqual(client.deploy(flow, source).deployment_version, 3)
        puts = [r for r in store.requests if r[0] == "PUT"]
        self.assertEqual([r[1].partition("?")[0] for r in puts], ["/1", "/2"])
        self.assertFalse([r for r in puts if "Authorization" in r[2]])
        with zipfile.ZipFile(io.BytesIO(b"".join(r[3] for r in puts))) as archive:
            self.assertIn(b"aarch64", archive.read("native.py"))
        complete = json.loads(self.server.requests[-1][3])
        self.assertEqual(complete["parts"], [{"part_number": 1, "etag": '"e1"'}, {"part_number": 2, "etag": '"e2"'}])
        self.assertEqual((complete["execution_mode"], complete["flow_spec"]), ("medium", {"tasks": []}))
        self.assertRegex(complete["flow_version"], "^dev-[0-9a-f]{12}$")


class TestSameSurface(unittest.TestCase):
    def test_sync_and_async_have_same_signatures(self):
        import inspect

        for one, other in ((Client, AsyncClient), (api.Run, api.AsyncRun)):
            names = [n for n in vars(one) if not n.startswith("_")]
            for name in names:
                first, second = inspect.signature(getattr(one, name)), inspect.signature(getattr(other, name))
                self.assertEqual(list(first.parameters.values()), list(second.parameters.values()), name)

    def test_delays_grow_to_maximum(self):
        call = _calls.exchange(_calls.Request("GET", "/x"), 4)
        next(call)
        pauses = []
        with self.assertRaises(api.ConnectionFailedError):
            while True:
                step = call.throw(api.ConnectionFailedError("x"))
                pauses.append(step.seconds)
                next(call)
        self.assertEqual(len(pauses), 4)
        self.assertTrue(all(0.1 * 2**i <= p <= 0.2 * 2**i for i, p in enumerate(pauses)), pauses)

