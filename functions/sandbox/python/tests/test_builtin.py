"""The built-in types of tasks in local runs: outputs, errors and log lines are the service's."""

import http.server
import json
import threading
import unittest

from millrace._builtin import HttpError, run
from millrace.errors import ExpressionError


class Answers(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.do_GET()

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        code = int(self.path.strip("/").split("/")[0])
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "/200/moved")
        self.send_header("Content-Type", "text/plain" if "text" in self.path else "application/json")
        self.send_header("Set-Cookie", "session=1")
        self.send_header("X-Twice", "a")
        self.send_header("X-Twice", "b")
        self.end_headers()
        told = {"method": self.command, "path": self.path, "body": body.decode(), "agent": self.headers["User-Agent"], "own": self.headers["X-Own"]}
        self.wfile.write(json.dumps(told).encode())

    def log_message(self, *_):
        pass


class Builtin(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        threading.Thread(target=cls.server.serve_forever, args=(0.01,), daemon=True).start()
        cls.url = f"http://127.0.0.1:{cls.server.server_port}"

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()

    def http(self, **config):
        self.lines = []
        return run("http", config, {}, lambda *event: self.lines.append(event))

    def test_http_response(self):
        output = self.http(method="post", url=self.url + "/200/x?key=private", json={"a": 1}, headers={"x-own": 5, "x-none": None})
        self.assertEqual(sorted(output), ["body", "headers", "json", "status"])
        self.assertEqual(output["json"], {"method": "POST", "path": "/200/x?key=private", "body": '{"a": 1}', "agent": "millrace", "own": "5"})
        self.assertEqual((output["status"], output["headers"]["x-twice"], output["headers"].get("set-cookie")), (200, "a, b", None))
        self.assertEqual(self.lines, [("info", "http", f"POST {self.url}/200/x answered 200, {len(output['body'])} bytes")])

    def test_only_json_is_decoded(self):
        self.assertIsNone(self.http(url=self.url + "/200/text")["json"])

    def test_redirects(self):
        self.assertEqual(self.http(url=self.url + "/302")["json"]["path"], "/200/moved")
        self.assertEqual(self.http(url=self.url + "/302", expected_status=[200, 302])["status"], 302)

    def test_unexpected_responses_fail(self):
        for config, want in (
            ({"url": self.url + "/404/text?key=private"}, rf"^GET {self.url}/404/text answered 404: \{{\"method\": \"GET\""),
            ({"url": self.url + "/200", "expected_status": 201}, r"answered 200: "),
            ({"url": "file:///etc/passwd"}, "^config.url is not an absolute http or https URL$"),
            ({"url": 5}, "^config.url is not an absolute http or https URL$"),
            ({"url": self.url + "/200", "body": {"a": 1}}, "^config.body must be a string$"),
            ({"url": "http://127.0.0.1:1/"}, "^the call failed: .*refused"),
        ):
            with self.subTest(want), self.assertRaisesRegex(HttpError, want):
                self.http(**config)

    def test_wait(self):
        self.assertEqual(run("wait", {"seconds": 0}, {}, None), {"waited_seconds": 0})
        for seconds in (-1, "5", True, None):
            with self.subTest(seconds), self.assertRaisesRegex(ExpressionError, r"^config.seconds must be a number from 0 to 31622400$"):
                run("wait", {"seconds": seconds}, {}, None)
