"""A server that answers what a test tells it to."""

import http.server
import json
import threading

CUT = object()  # the connection ends without an answer
HALF = object()  # the answer ends in the middle


class FakeServer:
    """Answers each request by the next of ``answers``: (status, body, headers), CUT or HALF; the last one stays.

    ``requests`` are those that came: (method, path with query, headers, body).
    """

    def __init__(self, *answers, host="127.0.0.1"):
        self.answers, self.requests = list(answers), []
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fake.requests.append((self.command, self.path, dict(self.headers), body))
                answer = fake.answers.pop(0) if len(fake.answers) > 1 else fake.answers[0]
                if callable(answer):
                    answer = answer(self.command, self.path)
                self.close_connection = True
                if answer is CUT:
                    return
                if answer is HALF:
                    self.send_response(200)
                    self.send_header("Content-Length", "1000")
                    self.end_headers()
                    self.wfile.write(b'{"half":')
                    return
                status, value, headers = (*answer, {})[:3]
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                for name, text in {"X-Request-Id": "req-1", "Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer((host, 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
