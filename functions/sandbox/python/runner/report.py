"""Reports attempts of the Lambda transport to the internal routes; see cloud.py for their messages."""

import collections
import http.client
import json
import os
import threading
import time
import urllib.error
import urllib.request

from millrace._context import MAX_FIELDS

from .links import FileError

_POST_EVENTS, _POST_BYTES = 1000, 256 << 10  # of one post
_MAX_WAITING = 8 << 20  # bytes of lines not yet posted
_POST_EVERY_SECS = 5.0
_ASK_SECS = 10.0  # time limit of a question
_START_ASK_SECS = 60.0  # time limit of /start: after it the attempt has not begun
_COMPLETE_SECS = 60.0  # time limit of /complete: after it the attempt is lost
_LEVELS = frozenset(("debug", "info", "warning", "error", "critical"))


class Route:
    """A client of the internal routes for one attempt."""

    def __init__(self, url, token, runner=None):
        self._url, self._token = url.rstrip("/"), token
        self._runner = runner or os.urandom(12).hex()

    def of(self, token):
        """Return the routes as the same runner of another attempt."""
        return Route(self._url, token, self._runner)

    def start(self):
        """Begin the attempt; return its request, or None if nothing must run."""
        answer = self._persist("/start", {}, _START_ASK_SECS)
        return None if answer is None else answer["request"]

    def logs(self, message):
        """Post lines or a question."""
        return self._send("/logs", message, 5)

    def complete(self, events, answer, left, seconds):
        """Post the answer; return what came for it, or None if the attempt is another's."""
        message = {"events": events, "answer": answer}
        if left:
            message["remaining_secs"] = left
        return self._persist("/complete", message, seconds)

    def _send(self, path, message, timeout):
        body = json.dumps({"runner": self._runner, **message}, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return json.loads(response.read() or b"{}")

    def _persist(self, path, message, seconds):
        """Send with retries; return the answer, or None if it is a 4xx error."""
        until, delay = time.monotonic() + seconds, 0.2
        while True:
            try:
                return self._send(path, message, 30)
            except urllib.error.HTTPError as error:
                with error:
                    if error.code < 500 and error.code != 429:
                        return None
                fault = error
            except (OSError, ValueError, http.client.HTTPException) as error:
                fault = error
            if time.monotonic() + delay > until:
                raise RuntimeError(f"{path} was not answered: {type(fault).__name__}")
            time.sleep(delay)
            delay = min(2 * delay, 5)


class Reporter:
    """Posts log events in batches on its own thread, renews the lease and detects cancellation."""

    def __init__(self, route, masker):
        self.cancelled = threading.Event()
        self._route, self._masker = route, masker
        self._events, self._lock, self._wake = collections.deque(), threading.Lock(), threading.Event()
        self._sending = threading.Lock()
        self._waiting = self._dropped = self._sequence = 0
        self._closing = False
        self._renew = False  # the lease is new
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def add(self, seconds, level, logger, message, fields=None):
        size = len(message) + (len(json.dumps(fields)) if fields else 0)
        if size - len(message) > MAX_FIELDS or not isinstance(fields, (dict, type(None))):
            fields = None  # not written by millrace: a task wrote to the pipe
        with self._lock:
            if self._waiting + size > _MAX_WAITING:
                self._dropped += 1
                return
            self._waiting += size
            self._events.append((size, self._event(seconds, level, logger, message, fields)))
            full = self._waiting > _POST_BYTES or len(self._events) >= _POST_EVENTS
        if full:
            self._wake.set()

    def _event(self, seconds, level, logger, message, fields=None):
        self._sequence += 1
        event = {
            "timestamp": _stamp(seconds), "level": level if level in _LEVELS else "info",
            "logger": self._masker.mask(logger)[:200], "message": self._masker.mask(message), "sequence": self._sequence,
        }
        if fields:
            event["fields"] = json.loads(self._masker.mask_json(json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")))
        return event

    def complete(self, answer, left=0):
        """Post the answer with the remaining lines; return what came for it, or None if the attempt is another's."""
        self._closing = True
        self._wake.set()
        self._thread.join(timeout=20)
        while len(self._events) > _POST_EVENTS or self._waiting > _POST_BYTES:
            if not self._post(self._batch()):
                break
        return self._route.complete(self._batch(), answer, left, _COMPLETE_SECS)

    def _work(self):
        """Post the lines every few seconds, and as soon as there are enough for a full post."""
        last = time.monotonic()
        while not self._closing:
            full = self._wake.wait(max(0, last + _POST_EVERY_SECS - time.monotonic()))
            if self._closing:
                return
            self._wake.clear()
            if not full:
                self._post(self._batch(), beat=True)
                last = time.monotonic()
                continue
            self._post(self._batch())

    def _batch(self):
        batch, size = [], 0
        with self._lock:
            if self._dropped and not self._events:
                batch.append(self._event(time.time(), "warning", "millrace", f"{self._dropped} log lines were dropped: too many at once"))
                self._dropped = 0
            while self._events and len(batch) < _POST_EVENTS:
                more = self._events[0][0]
                size += more
                if batch and size > _POST_BYTES:
                    break
                batch.append(self._events.popleft()[1])
                self._waiting -= more
        return batch

    def _send(self, message):
        """Post a message; return the answer."""
        with self._sending:  # one at a time: the service logs the start of the attempt with the first
            answer = self._route.logs(message)
        if answer.get("cancelled"):
            self.cancelled.set()
        return answer

    def ask(self, question):
        """Return the route's answer with the URL of a file; raise FileError if there is none."""
        until, delay = time.monotonic() + _ASK_SECS, 0.2
        while True:
            try:
                answer = self._send({"events": [], **question})
                if self.cancelled.is_set():
                    raise FileError("the task is to stop")
                if not isinstance(answer.get("url"), str) or not isinstance(answer.get("reference"), str):
                    raise FileError("this deployment keeps no files of tasks")  # the service is older than this runner
                return answer
            except urllib.error.HTTPError as error:
                with error:
                    if error.code < 500 and error.code != 429:
                        raise FileError(_detail(error)) from None
                fault = f"the service answered {error.code}"
            except (OSError, ValueError, http.client.HTTPException) as error:
                fault = f"the service did not answer: {type(error).__name__}"
            if time.monotonic() + delay > until:
                raise FileError(fault)
            time.sleep(delay)
            delay = min(2 * delay, 1)

    def _post(self, batch, beat=False):
        """Post a batch, which may be empty; return true if there are more lines."""
        message = {"events": batch}
        if beat and self._renew:
            message["renew"] = True
        for delay in (0.2, 0.5, 1, None):
            try:
                self._send(message)
                self._renew = self._renew != beat
                break
            except (OSError, ValueError, http.client.HTTPException):
                if delay is not None:
                    time.sleep(delay)
        else:
            with self._lock:
                self._dropped += len(batch)
            return False
        with self._lock:
            return bool(self._events or self._dropped)


def _detail(error):
    """Return the message of the route's error."""
    try:
        detail = json.loads(error.read(64 << 10))["detail"]
        return str(detail if isinstance(detail, str) else detail[0]["msg"])
    except (OSError, ValueError, LookupError, TypeError):
        return f"the service answered {error.code}"


def _stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"
