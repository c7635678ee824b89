import hashlib
import http.server
import io
import json
import os
import tempfile
import threading
import unittest
import unittest.mock
import zipfile

import runner.report
from runner import confine, orphans
from runner.cloud import Cloud

SOURCE = """
import os, time
VERSION = %r
def version(): return VERSION
def talk(ctx): print("printed"); ctx.log("logged"); os.write(2, b"written\\n"); return ctx.secret("token")
def leak(ctx): print("it is", ctx.secret("token"))
def big(): return "x" * 40000
def boom(): return {}["no"]
def fields(ctx): ctx.log("read", rows=3, of={ctx.secret("token"): ["it is " + ctx.secret("token")]})
def soon(): return 1
def echo(value): return value
if VERSION != int(VERSION): time.sleep(1.2)
def slow(): print("started"); time.sleep(60)
def stubborn():
    while True:
        try: time.sleep(60)
        except BaseException: pass
def dies(): os._exit(4)
def killed(size): held = b"x" * size; os.kill(os.getpid(), 9)
def write(ctx, size):
    with open("out", "wb") as file: file.write(b"0123456789abcdef" * (size >> 4) + b"x" * (size & 15))
    return ctx.save_file("out", "big.bin")
def digest(file):
    import hashlib
    return [file.name, hashlib.sha256(open(file, "rb").read()).hexdigest()]
def twice(ctx):
    kept = []
    for size in (16, 200000):
        try: kept.append(write(ctx, size).key)
        except Exception as error: kept.append(str(error))
    return kept
def half(): os.write(4, (5000 + 17).to_bytes(4, "big") + b"P" + own() + b"x" * 100); time.sleep(60)
def deaf(): frame(own(), b"G", b"files/1"); time.sleep(60)
def undone(): frame(own(), b"G", b"files/1")
def guarded(file):
    try: return file.read_text()
    except Exception as error: return str(error)
def env(): return sorted(os.environ)
def trace(ctx): return [ctx.traceparent, os.environ.get("TRACEPARENT"), os.popen("echo $TRACEPARENT").read().strip()]
def daemon():
    import subprocess
    first = subprocess.Popen(["sh", "-c", "setsid sleep 600 & setsid sh -c 'setsid sleep 600 & sleep 600' & echo started"], start_new_session=True)
    first.wait()
    return os.getpid()
def peek(pid):
    try: return open(f"/proc/{pid}/environ").read()
    except OSError as error: return type(error).__name__
def forge(): os.environ["TRACEPARENT"] = "forged"
def frame(nonce, kind, body): os.write(4, (len(body) + 17).to_bytes(4, "big") + kind + nonce + body)
def own():
    import gc
    from runner.local import Channel
    return next(o for o in gc.get_objects() if isinstance(o, Channel))._nonce
def early(): frame(b"n" * 16, b"O", b'"forged"'); frame(b"n" * 16, b"R", b"{}")
def ahead(): frame(own(), b"O", b'"mine"'); frame(own(), b"R", b"{}"); frame(own(), b"E", b'[1, "info", "a", "b"]')
def says(text): frame(own(), b"O", text.encode()); frame(own(), b"R", b"{}"); time.sleep(60)
"""


class Store(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path in self.server.short:
            self.server.short.remove(self.path)
            self.answer(self.server.blobs[self.path][:-1], size=len(self.server.blobs[self.path]))
        elif self.path in self.server.blobs and self.server.busy:
            self.answer(b"", self.server.busy.pop())
        elif self.path in self.server.blobs:
            self.answer(self.server.blobs[self.path], size=self.server.claimed)
        else:
            self.answer(b"", self.server.missing)

    def do_PUT(self):
        if self.server.refuses:
            self.answer(b"", 403)
        elif self.server.full:
            if status := self.server.full.pop(0):
                self.body()
                self.answer(b"", status)
            else:  # hang up
                self.close_connection = True
        else:
            self.server.blobs[self.path] = self.body()
            self.answer(b"")

    def link(self, batch):
        self.server.asked.append(batch)
        reference = batch.get("open_file") or f"files/{batch['save_file']}"
        if self.server.faults:
            self.answer(b'{"detail": "not now"}', self.server.faults.pop())
        elif not reference.startswith("files/"):
            self.answer(b'{"detail": [{"msg": "it is refused"}]}', 422)
        else:
            url = f"http://127.0.0.1:{self.server.server_port}/{reference}"
            self.answer(json.dumps({"cancelled": False, "reference": reference, "url": url}).encode())

    def do_POST(self):
        batch = json.loads(self.body())
        self.server.tokens.add(self.headers["Authorization"])
        self.server.posts.append((self.path, batch))
        if self.server.refusals.get(self.path):
            self.answer(b'{"detail": "no"}', self.server.refusals[self.path].pop())
        elif ("save_file" in batch or "open_file" in batch) and self.path in self.server.short:
            self.server.short.remove(self.path)
            self.answer(b"{}", size=100)
        elif self.path == "/start":
            self.answer(json.dumps({"request": self.server.request}).encode())
        elif "save_file" in batch or "open_file" in batch:
            self.link(batch)
        else:
            self.server.events += batch["events"]
            self.server.given = batch.get("answer", self.server.given)
            cancelled = self.server.cancel_at is not None and any(e["message"] == self.server.cancel_at for e in self.server.events)
            following = {"next": self.server.following.pop(0)} if self.path == "/complete" and self.server.following else {}
            self.answer(json.dumps({"cancelled": cancelled, **following}).encode())

    def body(self):
        return self.rfile.read(int(self.headers["Content-Length"]))

    def answer(self, data, status=200, size=None):
        self.send_response(status)
        self.send_header("Content-Length", str(size or len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class CloudTest(unittest.TestCase):
    def setUp(self):
        root = tempfile.TemporaryDirectory()
        self.addCleanup(root.cleanup)
        os.chmod(root.name, 0o755)
        self.store = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
        self.store.blobs, self.store.events, self.store.tokens, self.store.cancel_at = {}, [], set(), None
        self.store.missing, self.store.request, self.store.given, self.store.short, self.store.busy, self.store.full = 404, None, None, [], [], []
        self.store.posts, self.store.refusals, self.store.following = [], {}, []
        self.store.asked, self.store.faults, self.store.refuses, self.store.claimed = [], [], False, None
        self.store.handle_error = lambda *_: None  # a client that went away in the middle
        threading.Thread(target=self.store.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(self.store.server_close)
        self.addCleanup(self.store.shutdown)
        for module, name, value in ((runner.report, "_POST_EVERY_SECS", 0.2), (runner.links, "_PATIENCE_SECS", 2)):
            patch = unittest.mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.url = f"http://127.0.0.1:{self.store.server_port}"
        self.cloud = Cloud(root.name)
        self.addCleanup(self.cloud.close)

    def run_request(self, request, remaining=None):
        self.store.request = request
        self.assertEqual(self.cloud.run({"token": "t0ken"}, remaining, self.url), {"taken": True})
        return self.store.given

    def call(self, function, version=1, **more):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            archive.writestr("flow.py", SOURCE % version)
        self.store.blobs[f"/{version}"] = data.getvalue()
        answer = self.run_request(
            {"artifact": {"hash": f"v{version}", "url": f"{self.url}/{version}"}, "run_id": "r",
             "task_name": "t", "attempt": 1, "entrypoint": f"flow:{function}", "timeout_secs": 20, "secrets": {"token": "s"}, **more}
        )
        self.took = answer.get("task_secs")
        return answer

    def test_versions_never_mix(self):
        for version in (1, 2, 1):
            self.assertEqual(self.call("version", version), {"output": version, "output_bytes": 1, "task_secs": self.took})

    def test_logs_are_posted(self):
        self.assertEqual(self.call("talk")["output"], "s")
        seen = {(e["level"], e["logger"], e["message"]) for e in self.store.events}
        self.assertEqual(seen, {("info", "stdout", "printed"), ("info", "task", "logged"), ("warning", "stderr", "written")})
        self.assertEqual(self.store.tokens, {"Bearer t0ken"})

    def test_secrets_are_masked(self):
        self.call("leak", secrets={"token": "hush-hush"})
        self.assertEqual([e["message"] for e in self.store.events], ["it is ***"])

    def test_fields_are_their_own(self):
        self.call("fields", secrets={"token": "hush-hush"})
        (event,) = self.store.events
        self.assertEqual((event["message"], event["fields"]), ("read", {"rows": 3, "of": {"***": ["it is ***"]}}))

    def test_time_is_the_functions(self):
        answer = self.call("soon", 1.5, timeout_secs=1)
        self.assertEqual(answer["output"], 1)
        self.assertLess(answer["task_secs"], 1)
        failure = self.call("soon", 2.5, import_timeout_secs=0.3)["failure"]
        self.assertEqual(failure["type"], "TaskTimeoutError")
        self.assertIn("importing the module of flow:soon took longer than the 0.3 s", failure["message"])

    def test_the_functions_own_end(self):
        self.call("version")
        answer = self.run_request({"artifact": {"hash": "v1", "url": ""}, "entrypoint": "flow:slow"}, 5.3)
        self.assertEqual(answer["failure"]["type"], "TaskTimeoutError")
        self.assertIn("function's time was over", answer["failure"]["message"])

    def test_large_output_is_uploaded(self):
        self.assertEqual(self.call("big", output_url=self.url + "/out"), {"output_ref": True, "output_bytes": 40002, "task_secs": self.took})
        self.assertEqual(len(self.store.blobs["/out"]), 40002)

    def test_failures(self):
        failure = self.call("boom")["failure"]
        trace = failure.pop("traceback")
        self.assertEqual(failure, {"type": "TaskFailedError", "message": "KeyError: 'no'", "exception": "KeyError"})
        self.assertRegex(trace, r'^Traceback \(most recent call last\):\n  File "flow.py", line \d+, in boom\n[^/]*KeyError: .no.$')
        for function in ("slow", "stubborn"):
            self.assertEqual(self.call(function, timeout_secs=0.2)["failure"]["type"], "TaskTimeoutError")
        with unittest.mock.patch.dict(os.environ, {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "4096"}):
            died = self.call("killed", params={"size": 1})
        self.assertEqual(sorted(died), ["error", "task_secs"])
        self.assertIn("killed by signal 9 (SIGKILL), by itself or for want of memory", died["error"])
        with unittest.mock.patch.dict(os.environ, {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "80"}):  # as the kernel does
            self.assertIs(self.call("killed", params={"size": 80 << 20})["out_of_memory"], True)
        died = self.call("dies")
        self.assertEqual(died, {"error": "the interpreter died: exit status 4", "task_secs": died["task_secs"]})
        self.assertEqual(self.call("version")["output"], 1)

    def test_files(self):
        for size in (0, 5 << 20, (3 << 20) + 7):
            saved = self.call("write", params={"size": size})["output"]
            self.assertEqual(saved, {"$file": {"key": "files/0", "name": "big.bin", "size": size}})
            data = self.store.blobs["/files/0"]
            self.assertEqual(len(data), size)
            digest = hashlib.sha256(data).hexdigest()
            self.assertEqual(self.call("digest", inputs={"file": {"value": saved}})["output"], ["big.bin", digest])
        self.assertEqual(self.store.tokens, {"Bearer t0ken"})

    def test_tasks_without_files_ask_for_none(self):
        self.call("talk")
        self.assertEqual(self.store.asked, [])

    def test_files_are_numbered_and_asked_for_again(self):
        self.store.faults = [429, 503]
        self.assertEqual(self.call("twice")["output"], ["files/0", "files/1"])
        self.assertEqual([batch["save_file"] for batch in self.store.asked], [0, 0, 0, 1])

    def test_files_that_are_refused(self):
        self.store.refuses = True
        for said in self.call("twice")["output"]:
            self.assertRegex(said, "^the file 'big.bin' could not be saved: the object store (answered 403|did not answer: [A-Za-z]+)$")
        self.store.refuses = False
        for key, want in (("files/9", "the object store answered 404"), ("../other", "it is refused")):
            answer = self.call("guarded", inputs={"file": {"value": {"$file": {"key": key, "name": "f", "size": 1}}}})
            self.assertEqual(answer["output"], f"the file 'f' could not be opened: {want}")
        self.store.faults = [401]
        failure = self.call("write", params={"size": 2 << 20})["failure"]
        self.assertEqual((failure["type"], failure["message"]), ("TaskFailedError", "the file 'big.bin' could not be saved: not now"))
        self.assertEqual(self.call("version")["output"], 1)

    def test_a_file_is_sent_again_to_a_busy_store(self):
        self.store.full = [503, 429, None]
        size = 2 << 20
        saved = self.call("write", params={"size": size})["output"]
        self.assertEqual(saved, {"$file": {"key": "files/0", "name": "big.bin", "size": size}})
        digest = hashlib.sha256(self.store.blobs["/files/0"]).hexdigest()
        self.assertEqual(self.call("digest", inputs={"file": {"value": saved}})["output"], ["big.bin", digest])
        self.assertEqual([batch.get("save_file") for batch in self.store.asked], [0, 0, 0, 0, None])

    def test_a_store_that_stays_busy_is_not_asked_for_ever(self):
        self.store.full = [503] * 100
        failure = self.call("write", params={"size": 10})["failure"]
        self.assertEqual(failure["message"], "the file 'big.bin' could not be saved: the object store answered 503")
        self.assertEqual(len(self.store.full), 96)  # after 0.2, 0.4 and 0.8 of 2 s
        self.store.full = [503]
        self.assertEqual(self.call("twice")["output"], ["files/0", "files/1"])

    def test_the_clock_runs_while_the_store_is_busy(self):
        self.store.full = [503] * 100
        self.call("version")
        failure = self.call("write", params={"size": 10}, timeout_secs=0.1)["failure"]
        self.assertEqual(failure["type"], "TaskTimeoutError")

    def test_a_busy_store_is_asked_again(self):
        self.call("version")
        self.store.blobs["/files/1"] = b"kept"
        file = {"value": {"$file": {"key": "files/1", "name": "f", "size": 4}}}
        self.store.busy = [503, 429]
        self.assertEqual(self.call("guarded", inputs={"file": file})["output"], "kept")

    def test_a_file_that_breaks_off_ends_the_interpreter(self):
        self.call("version")
        self.store.blobs["/files/1"], self.store.claimed = b"short", 100
        answer = self.call("guarded", inputs={"file": {"value": {"$file": {"key": "files/1", "name": "f", "size": 100}}}})
        self.assertIn("a file could not be fetched", answer["error"])
        self.store.claimed = None
        self.assertEqual(self.call("version")["output"], 1)

    def test_the_clock_runs_while_files_move(self):
        self.store.blobs["/files/1"] = bytes(1 << 20)  # more than a pipe holds
        for function in ("half", "deaf"):
            failure = self.call(function, timeout_secs=0.2)["failure"]
            self.assertEqual(failure["type"], "TaskTimeoutError", function)
        self.assertEqual(self.call("version")["output"], 1)

    def test_a_file_that_no_task_takes_spoils_no_other(self):
        self.store.blobs["/files/1"] = bytes(1 << 20)
        for _ in range(5):  # the interpreter dies of it, somewhat later
            self.assertIsNone(self.call("undone")["output"])
            self.assertEqual(self.call("version")["output"], 1)

    def test_no_task_answers_for_another(self):
        self.assertIn("broke the protocol", self.call("early")["error"])
        self.assertEqual(self.call("version")["output"], 1)
        # What it says of itself stands; what follows ends the interpreter.
        self.assertEqual(self.call("ahead")["output"], "mine")
        for _ in range(3):
            self.assertEqual(self.call("version")["output"], 1)

    def test_forged_outputs_are_read_strictly(self):
        cases = {'{"a": 1, "a": 2}': "twice", '"\\ud800"': "Unicode", "[" * 101 + "]" * 101: "levels", "NaN": "JSON", "{": "not JSON"}
        for text, want in cases.items():
            failure = self.call("says", params={"text": text})["failure"]
            self.assertEqual(failure["type"], "ArtifactSerializationError")
            self.assertIn(want, failure["message"])
            self.assertEqual(self.call("version")["output"], 1)

    def test_a_store_that_is_away_is_no_failure(self):
        for status, passing in ((503, True), (429, True), (403, False), (404, False)):
            request = {"artifact": {"hash": f"h{status}", "url": f"{self.url}/gone{status}"}, "entrypoint": "m:soon", "params": {}}
            self.store.missing = status
            answer = self.run_request(request)
            self.assertIn(f"HTTPError {status}", answer["error"])
            self.assertEqual(answer.get("unstarted", False), passing)
        request["artifact"] = {"hash": "none", "url": "http://127.0.0.1:1/none"}
        self.assertTrue(self.run_request(request)["unstarted"])

    def test_answers_that_break_off_are_no_failure_of_the_task(self):
        self.store.short = ["/1"]
        self.assertEqual(self.call("version"), {"error": "the artifact could not be fetched: IncompleteRead", "unstarted": True})
        self.assertEqual(self.call("version")["output"], 1)
        self.store.blobs["/input"], self.store.short = b'"given"', ["/input"]
        self.assertEqual(self.call("echo", inputs={"value": {"url": self.url + "/input"}})["output"], "given")
        self.store.short = ["/input"] * 3
        self.assertEqual(self.call("echo", inputs={"value": {"url": self.url + "/input"}})["output"], "given")
        self.assertEqual(self.call("echo", inputs={"value": {"url": self.url + "/none"}})["error"], "an input could not be fetched: HTTPError 404")
        self.store.short = ["/logs"]
        self.assertEqual(self.call("twice")["output"], ["files/0", "files/1"])

    def test_cancel(self):
        self.store.cancel_at = "started"
        self.assertEqual(self.call("slow")["failure"]["type"], "Cancelled")

    def test_a_short_task_makes_two_requests(self):
        runner.report._POST_EVERY_SECS = 600
        self.call("version")
        self.store.posts.clear()
        self.call("talk")
        self.assertEqual([path for path, _ in self.store.posts], ["/start", "/complete"])
        (_, start), (_, complete) = self.store.posts
        self.assertEqual(start["runner"], complete["runner"])
        self.assertEqual(len(complete["events"]), 3)
        self.assertEqual(self.store.tokens, {"Bearer t0ken"})

    def test_a_runner_goes_on_with_the_next_attempt(self):
        runner.report._POST_EVERY_SECS = 600
        self.call("version")
        request = {**self.store.request, "secrets": {"token": "another"}}
        for remaining, wanted in ((None, 0), (100, 95), (3, 0)):
            self.store.posts.clear()
            self.run_request(self.store.request, remaining)
            self.assertAlmostEqual(self.store.posts[-1][1].get("remaining_secs", 0), wanted, delta=3)
        self.store.posts.clear()
        self.store.tokens.clear()
        self.store.following = [
            {"token": "second", "request": {**request, "entrypoint": "flow:leak"}}, {"token": "third", "request": {**request, "entrypoint": "flow:dies"}},
            {"token": "fourth", "request": request},
        ]
        self.assertEqual(self.run_request(self.store.request, 100)["output"], 1)
        self.assertEqual([path for path, _ in self.store.posts], ["/start"] + ["/complete"] * 4)
        self.assertEqual(len({batch["runner"] for _, batch in self.store.posts}), 1)
        self.assertEqual(self.store.tokens, {"Bearer t0ken", "Bearer second", "Bearer third", "Bearer fourth"})
        self.assertEqual([e["message"] for e in self.store.posts[2][1]["events"]], ["it is ***"])
        self.assertIn("exit status 4", self.store.posts[3][1]["answer"]["error"])

    def test_the_lease_is_renewed_in_every_second_post(self):
        self.store.cancel_at = "never"
        failure = self.call("slow", timeout_secs=2.5)["failure"]
        self.assertEqual(failure["type"], "TaskTimeoutError")
        beats = [batch.get("renew", False) for path, batch in self.store.posts if path == "/logs"]
        self.assertGreater(len(beats), 3)
        self.assertEqual(beats, [n % 2 == 1 for n in range(len(beats))])

    def test_messages_of_an_attempt_are_sent_one_after_the_other(self):
        both, at_once = threading.Barrier(2), []

        class Route:
            def logs(self, message):
                try:  # the second message comes while this one is under way, if it can
                    both.wait(0.5)
                    at_once.append(message)
                except threading.BrokenBarrierError:
                    pass
                return {"url": "u", "reference": "r"}

        reporter = runner.report.Reporter(Route(), None)
        other = threading.Thread(target=reporter.ask, args=({"file": "f"},))
        other.start()
        reporter._post([])
        other.join()
        reporter._closing = True
        self.assertEqual(at_once, [])

    def test_what_another_runner_has_does_not_run(self):
        self.call("version")
        for status in (409, 401):
            self.store.refusals = {"/start": [status]}
            self.store.posts.clear()
            self.assertEqual(self.cloud.run({"token": "t0ken"}, None, self.url), {"over": True})
            self.assertEqual([path for path, _ in self.store.posts], ["/start"])

    def test_requests_are_repeated(self):
        self.store.refusals = {"/start": [503, 429], "/complete": [500]}
        self.assertEqual(self.call("version")["output"], 1)
        self.assertEqual([path for path, _ in self.store.posts if path != "/logs"], ["/start"] * 3 + ["/complete"] * 2)
        self.store.refusals = {"/complete": [409]}
        self.assertEqual(self.cloud.run({"token": "t0ken"}, None, self.url), {"taken": False})

    def test_task_sees_its_place_in_the_trace(self):
        one, two = (f"00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333{n}-01" for n in (1, 2))
        self.assertEqual(self.call("trace", traceparent=one)["output"], [one] * 3)
        self.call("forge", traceparent=one)
        self.assertEqual(self.call("trace", traceparent=two)["output"], [two] * 3)
        self.assertEqual(self.call("trace")["output"], ["", None, ""])

    def test_no_process_of_a_task_is_left(self):
        self.assertEqual(self.call("version")["output"], 1)
        warm = len(orphans.descendants())
        self.call("daemon")
        self.assertEqual(orphans.descendants(), set())
        self.assertFalse(self.cloud.soiled)
        self.assertEqual(self.call("version")["output"], 1)
        self.assertEqual(len(orphans.descendants()), warm)
        with unittest.mock.patch.object(orphans.os, "kill"):
            with unittest.mock.patch.object(orphans, "descendants", lambda: {1}):
                self.call("daemon")
        self.assertTrue(self.cloud.soiled)
        self.assertTrue(orphans.end())

    def test_a_task_cannot_read_the_runner(self):
        get_dumpable = 3
        self.assertEqual(confine._libc().prctl(get_dumpable, 0, 0, 0, 0), 0)
        if os.geteuid() != 0:  # root reads everything
            self.assertEqual(self.call("peek", params={"pid": os.getpid()})["output"], "PermissionError")

    def test_environment_is_clean(self):
        os.environ["AWS_SECRET_ACCESS_KEY"] = "verysecret"
        self.addCleanup(os.environ.pop, "AWS_SECRET_ACCESS_KEY")
        self.assertEqual(self.call("env")["output"], ["HOME", "LANG", "MILLRACE_SANDBOX", "PATH", "TMPDIR", "TZ"])

    def test_hostile_artifact_is_refused(self):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            archive.writestr("../evil.py", "")
        self.store.blobs["/evil"] = data.getvalue()
        answer = self.call("version", artifact={"hash": "evil", "url": self.url + "/evil"})
        self.assertIn("leads out", answer["failure"]["message"])
