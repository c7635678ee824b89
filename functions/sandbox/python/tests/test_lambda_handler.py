import http.server
import importlib
import json
import os
import sys
import threading
import unittest
import unittest.mock


class Service(http.server.BaseHTTPRequestHandler):
    """Records what is posted, and answers with the statuses that are left, then 200."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.posts.append((self.path, self.headers["Authorization"], body))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


class StartFailureTest(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
        self.server.posts, self.server.statuses = [], []
        self.url = f"http://127.0.0.1:{self.server.server_port}/attempts"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        for patch in (
            unittest.mock.patch.dict(sys.modules, {"runner.cloud": None}),  # its import fails
            unittest.mock.patch.dict(os.environ, {"MILLRACE_ATTEMPTS_URL": self.url}),
            unittest.mock.patch("time.sleep"),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        sys.modules.pop("lambda_handler", None)
        self.handler = importlib.import_module("lambda_handler")
        self.addCleanup(sys.modules.pop, "lambda_handler")

    def paths(self):
        return [path for path, _, _ in self.server.posts]

    def test_a_runner_that_cannot_be_imported_gives_its_attempt_back(self):
        with self.assertRaises(ImportError):  # Lambda counts it
            self.handler.handler({"token": "t0ken"}, None)
        self.assertEqual(self.paths(), ["/attempts/start", "/attempts/complete"])
        (_, bearer, start), (_, _, complete) = self.server.posts
        self.assertEqual(bearer, "Bearer t0ken")
        self.assertEqual(start["runner"], complete["runner"])
        self.assertTrue(complete["answer"]["unstarted"])
        self.assertIn("the runner does not start: ModuleNotFoundError: ", complete["answer"]["error"])

    def test_requests_are_repeated(self):
        self.server.statuses = [503, 429, 200, 500]
        self.handler.report(self.url, "t", ValueError("x" * 9999))
        self.assertEqual(self.paths(), ["/attempts/start"] * 3 + ["/attempts/complete"] * 2)
        self.assertLessEqual(len(self.server.posts[-1][2]["answer"]["error"]), 2000)

    def test_what_another_runner_has_is_left_alone(self):
        self.server.statuses = [409]
        self.handler.report(self.url, "t", ValueError())
        self.assertEqual(self.paths(), ["/attempts/start"])

    def test_a_service_that_is_away_is_given_up(self):
        self.handler.report("http://127.0.0.1:1", "t", ValueError())
