"""The Lambda transport: gets an attempt's request by its token and posts the answer.

The event is {"token"}: the bearer token of an attempt for the internal routes below
the address in MILLRACE_ATTEMPTS_URL. Nothing uses what the function returns.

    /start     {"runner"} begins the attempt. The answer is {"request"}: a request of
               core.Executor, and the artifact as {"hash", "url"}: the identity of the
               code, and a presigned GET of it. 409: the attempt is over or another
               runner has it, so nothing must run.
    /logs      {"runner", "renew", "events": [{"timestamp", "level", "logger", "message",
               "sequence", "fields"}]} every 5 s, with the lines since the last post,
               secrets masked, and earlier if there are many. renew, in every second one,
               renews the attempt's lease. {"cancelled": true} in the answer ends the task.
    /complete  {"runner", "events", "answer", "remaining_secs"} ends the attempt, with the
               last lines. Answered with {"next": {"token", "request"}} if the runner has
               begun the run's next attempt thereby, which it makes as if it had started it:
               for the time that its function has left, it saves other invocations.

runner is the id of this invocation: of two invocations with one token, only one begins.
The answer is {"output", "output_bytes"}, {"output_ref": true, "output_bytes"} or
{"failure": {"type", "message", "exception", "traceback"}}, with task_secs, the duration
of the task's function; or {"error"} if the sandbox itself failed, with out_of_memory if
the kernel killed the task because of its memory, and with unstarted if the task has not
begun because of a temporary error.

For a file that the task saves or opens the runner posts {"events": [], "save_file":
number} or {"events": [], "open_file": reference} to /logs. The answer has "reference" and
"url"; the bytes are streamed between this URL and the task's pipe. Lines that the route
does not accept, or that a task writes faster than they can be posted, are dropped, which
a line of the log reports.

The task runs in a child process of the local transport, kept warm for one artifact. So
one version of a flow never imports the modules of another, a task that does not stop is
killed, and a task cannot access the function's own environment.
"""

import collections
import fcntl
import hashlib
import http.client
import json
import os
import select
import selectors
import shutil
import signal
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from millrace import _values
from millrace._context import MAX_FIELDS
from millrace.errors import ArtifactSerializationError

from . import artifact
from .confine import _PR_SET_CHILD_SUBREAPER, _PR_SET_DUMPABLE, _prctl
from .core import DEFAULT_TIMEOUT_SECS, IMPORT_TIMEOUT_SECS
from .links import FileError, Links, TransferError, read
from .local import HEAD, MAX_FILE
from .masking import Masker

_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from runner.init import init; init(); from runner.local import main; main()"
_GRACE_SECS = 1.0
_START_SECS = 20.0  # for an interpreter to start
_MARGIN_SECS = 5.0  # for the answer and the last log lines
_UPLOAD_SECS = 600.0
_MAX_LINE = 64 << 10
_POST_EVENTS, _POST_BYTES = 1000, 256 << 10  # of one post
_MAX_WAITING = 8 << 20  # bytes of lines not yet posted
_POST_EVERY_SECS = 5.0
_ASK_SECS = 10.0  # time limit of a question
_START_ASK_SECS = 60.0  # time limit of /start: after it the attempt has not begun
_COMPLETE_SECS = 60.0  # time limit of /complete: after it the attempt is lost
_CHUNK = 1 << 20  # of a file
_LEVELS = frozenset(("debug", "info", "warning", "error", "critical"))


class Cloud:
    """Runs events one after another in this function's environment."""

    def __init__(self, root=None):
        self._root = root or os.path.join(tempfile.gettempdir(), "millrace")
        self._child = None
        self._hash = None
        # A process of a task could not be killed, so this environment must not run another task.
        self.soiled = False
        _harden()

    def run(self, event, remaining=None, url=None):
        """Run one event; remaining is the time in seconds until Lambda ends the function."""
        self._limit = time.monotonic() + remaining - _MARGIN_SECS if remaining is not None else float("inf")
        route = Route(url or os.environ["MILLRACE_ATTEMPTS_URL"], event["token"])
        request = route.start()
        if request is None:
            return {"over": True}
        while True:
            reporter = Reporter(route, Masker((request.get("secrets") or {}).values()))
            try:
                answer = self._run(request, reporter)
            except BaseException:
                reporter.complete({"error": "the runner failed"})
                raise
            done = reporter.complete(answer, self._left())
            if not (done or {}).get("next"):
                return {"taken": done is not None}
            route, request = route.of(done["next"]["token"]), done["next"]["request"]

    def _left(self):
        """Return how many seconds there are for another task, 0 if this environment is to have none."""
        left = self._limit - time.monotonic()
        return 0 if self.soiled or left == float("inf") else max(0, round(left, 1))

    def _run(self, event, reporter):
        try:
            directory = self._artifact(event["artifact"])
        except artifact.RefusedError as error:
            return {"failure": {"type": "TaskFailedError", "message": str(error)}}
        except (OSError, http.client.HTTPException) as error:
            answer = {"error": f"the artifact could not be fetched: {type(error).__name__} {getattr(error, 'code', '')}".rstrip()}
            return {**answer, "unstarted": True} if _passing(error) else answer
        request = {k: v for k, v in event.items() if k != "artifact"}
        if self._child is not None and (self._hash != event["artifact"]["hash"] or self._child.stale()):
            self.close()
        answer = None
        while answer is None:  # a child that an earlier request broke is replaced
            if self._child is None:
                self._child, self._hash = Child(directory, os.path.join(self._root, "scratch")), event["artifact"]["hash"]
            answer = self._child.call(request, reporter, self._limit)
            if answer is None:
                self.close()
        if self._child.spent:
            self.close()
            self.soiled = not _end_descendants()
        return answer

    def close(self):
        """End the child, if there is one."""
        if self._child is not None:
            self._child.kill()
        self._child = None

    def _artifact(self, named):
        directory = os.path.join(self._root, "artifacts", hashlib.sha256(named["hash"].encode()).hexdigest())
        if os.path.isdir(directory):
            return directory
        # Keep one artifact at a time, because the function's disk is small.
        self.close()
        shutil.rmtree(os.path.dirname(directory), ignore_errors=True)
        os.makedirs(os.path.dirname(directory))
        path, part = directory + ".zip", directory + ".part"
        with urllib.request.urlopen(named["url"], timeout=60) as source, open(path, "wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
        os.makedirs(part)
        artifact.extract(path, part)
        os.unlink(path)
        os.rename(part, directory)
        return directory


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
            except (OSError, ValueError) as error:
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


class OverError(Exception):
    """Ends the attempt with the given answer."""

    def __init__(self, answer):
        super().__init__(answer)
        self.answer = answer


class ProtocolError(Exception):
    """The child wrote something that violates the protocol."""


class Child:
    """A warm interpreter; see runner/local.py for its protocol."""

    def __init__(self, directory, scratch):
        self.spent = False
        shutil.rmtree(scratch, ignore_errors=True)
        os.makedirs(scratch)
        library = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        pipes = [os.pipe() for _ in range(4)]
        # Above the descriptors 1 to 4 that they become in the child, so that none overwrites another.
        theirs = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 16) for fd in (pipes[0][0], pipes[1][1], pipes[2][1], pipes[3][1])]
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for fd, number in zip(theirs, (3, 4, 1, 2))]
        env = {k: os.environ[k] for k in ("LD_LIBRARY_PATH",) if k in os.environ}
        env["LANG"] = "C.UTF-8"
        argv = [sys.executable, "-I", "-S", "-B", "-c", _BOOT, library]
        self._pid = os.posix_spawn(sys.executable, argv, env, file_actions=actions, setpgroup=0)
        for fd in (*theirs, pipes[0][0], pipes[1][1], pipes[2][1], pipes[3][1]):
            os.close(fd)
        self._requests, self._answers = pipes[0][1], pipes[1][0]
        self._outputs = {pipes[2][0]: ["info", "stdout", b""], pipes[3][0]: ["warning", "stderr", b""]}
        for fd in (self._answers, *self._outputs):
            os.set_blocking(fd, False)
        self._buffer = bytearray()
        self._nonce = self._setup = os.urandom(HEAD - 1)
        self._used = False
        self._send(b"S", {"mode": "plain", "artifact": directory, "scratch": scratch, "hide": [], "limits": {"CORE": 0}})

    def call(self, request, reporter, limit=float("inf")):
        """Run one request until the monotonic time limit; return its answer, or None if the child could not begin it because of an earlier one."""
        timeout = float(request.get("timeout_secs") or DEFAULT_TIMEOUT_SECS)
        importing = float(request.get("import_timeout_secs") or IMPORT_TIMEOUT_SECS)
        late = f"importing the module of {request.get('entrypoint')} took longer than the {importing:g} s that it has"
        deadline = time.monotonic() + _START_SECS + importing + _GRACE_SECS
        began, reached, output = None, set(), None  # each step counts once, even if a task writes it again
        warm, self._used, self._nonce = self._used, True, os.urandom(HEAD - 1)
        links = Links(reporter.ask)

        def wait(seconds=0.25):
            """Wait for the child and report its lines; raise OverError when its time is over."""
            if reporter.cancelled.is_set():
                raise OverError({"failure": {"type": "Cancelled", "message": "the task was cancelled"}})
            if time.monotonic() > min(deadline, limit):
                why = "its function's time was over: fetching, import, task and upload share it" if limit < deadline else late
                raise OverError(_timed({"failure": {"type": "TaskTimeoutError", "message": why + "; it was killed"}}, began))
            for key, _ in selector.select(seconds):
                if key.fd in self._outputs and not self._lines(key.fd, reporter):
                    selector.unregister(key.fd)

        try:
            self._send(b"Q", request)
            with selectors.DefaultSelector() as selector:
                for fd in (self._answers, *self._outputs):
                    selector.register(fd, selectors.EVENT_READ)
                while True:
                    wait()
                    for kind, body in self._frames():
                        warm = warm and kind == b"Y"  # any other frame means that the request has begun
                        if kind == b"E":
                            reporter.add(*json.loads(body))
                        elif kind in (b"B", b"U"):
                            if (step := (kind, body)) in reached:
                                continue
                            reached.add(step)
                            deadline = time.monotonic() + _UPLOAD_SECS
                            if step == (b"B", b"function"):
                                began, late = time.monotonic(), f"the task ran past its timeout_secs ({timeout:g})"
                                deadline = began + timeout + _GRACE_SECS
                        elif kind == b"O":
                            output = body
                        elif kind == b"P":
                            self._save(links, body, wait)
                        elif kind == b"G":
                            self._open(links, body, wait)
                        elif kind == b"R":
                            return _timed(self._answer(json.loads(body), output), began)
                        elif kind == b"Y" and "error" in (ready := json.loads(body)):
                            return self._end({"error": "starting the interpreter: " + ready["error"]})
        except OverError as over:
            return self._end(over.answer)
        except TransferError as error:
            return self._end({"error": str(error)})
        except (EOFError, OSError):
            # A warm child that died before it began this request died because of an earlier one.
            return self._end(None if warm else _timed(self._fate(), began))
        except ArtifactSerializationError as error:
            return self._end({"failure": {"type": "ArtifactSerializationError", "message": str(error)}})
        except ProtocolError as error:
            return self._end(None if warm else {"error": f"the interpreter broke the protocol: {error}"})
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            return self._end({"error": f"the interpreter broke the protocol: {error}"})
        finally:
            self._rest(reporter)

    def _answer(self, answer, output):
        # Bytes after the answer were not written by the runner.
        self.spent = bool(answer.pop("recycle", False)) or "error" in answer or bool(self._buffer)
        if self.spent:
            self.kill()
        if output is not None:
            return {"output": _strict(output), "output_bytes": len(output)}
        return answer

    def stale(self):
        """Return whether bytes arrived, or the pipe closed, since the last answer."""
        try:
            return self._used and (bool(self._buffer) or os.read(self._answers, 1) is not None)
        except BlockingIOError:
            return False

    def _end(self, answer):
        self.spent = True
        self.kill()
        return answer

    def _send(self, kind, value):
        self._send_bytes(kind, json.dumps(value).encode())

    def _send_bytes(self, kind, body):
        data = memoryview((len(body) + HEAD).to_bytes(4, "big") + kind + self._nonce + body)
        while data:
            data = data[os.write(self._requests, data) :]

    def _save(self, links, size, wait):
        """Store the file whose bytes follow in the pipe."""
        chunks = self._chunks(size, wait)
        try:
            kind, body = b"K", links.save(chunks, size).encode()
        except FileError as error:
            kind, body = b"N", str(error).encode()
        for _ in chunks:  # read the bytes that were not stored
            pass
        self._send_bytes(kind, body)

    def _chunks(self, size, wait):
        """Yield size bytes from the pipe."""
        while size:
            if not self._buffer and not self._fill(_CHUNK):
                wait()
                continue
            chunk = bytes(self._buffer[: min(size, _CHUNK)])
            del self._buffer[: len(chunk)]
            size -= len(chunk)
            yield chunk
            wait(0)

    def _open(self, links, reference, wait):
        """Send the child the file with this reference."""
        try:
            source, size = links.open(reference.decode("utf-8", "replace"))
        except FileError as error:
            self._send_bytes(b"N", str(error).encode())
            return
        with source:
            os.set_blocking(self._requests, False)
            try:
                self._feed((size + HEAD).to_bytes(4, "big") + b"I" + self._nonce, wait)
                while size:
                    chunk = read(source, min(size, _CHUNK))
                    size -= len(chunk)
                    self._feed(chunk, wait)
            finally:
                os.set_blocking(self._requests, True)

    def _feed(self, data, wait):
        """Write to the child as fast as it reads."""
        rest = memoryview(data)
        while rest:
            wait(0)
            try:
                rest = rest[os.write(self._requests, rest) :]
            except BlockingIOError:
                select.select([], [self._requests], [], 0.25)

    def _fill(self, most):
        """Read from the pipe without blocking; return false if it is empty."""
        try:
            chunk = os.read(self._answers, most)
        except BlockingIOError:
            return False
        if not chunk:
            raise EOFError
        self._buffer += chunk
        return True

    def _frames(self):
        """Yield kind and body of the received frames. For a file the body is its size; its bytes remain in the pipe."""
        self._fill(_CHUNK)  # only once: a child that never stops writing must not prevent the check of the time
        while frame := self._frame():
            yield frame

    def _frame(self):
        """Remove the next frame from the buffer and return it, or None if it is incomplete."""
        if len(self._buffer) < 4 + HEAD:
            return None
        size = int.from_bytes(self._buffer[:4], "big")
        kind, nonce = bytes(self._buffer[4:5]), self._buffer[5 : 4 + HEAD]
        if size < HEAD or nonce != (self._setup if kind == b"Y" else self._nonce):
            raise ProtocolError("a frame of another attempt")
        if kind == b"P":
            if size > HEAD + MAX_FILE:
                raise ProtocolError("a file of more than 1 GB")
            del self._buffer[: 4 + HEAD]
            return kind, size - HEAD
        if len(self._buffer) < size + 4:
            return None
        body = bytes(self._buffer[4 + HEAD : size + 4])
        del self._buffer[: size + 4]
        return kind, body

    def _lines(self, fd, reporter):
        """Report the lines available on a descriptor; return false at its end."""
        level, logger, rest = self._outputs[fd]
        alive = True
        try:
            while chunk := os.read(fd, 1 << 16):
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > _MAX_LINE:
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    reporter.add(time.time(), level, logger, line.decode("utf-8", "replace"))
            alive = False
        except BlockingIOError:
            pass
        self._outputs[fd][2] = rest
        return alive

    def _rest(self, reporter):
        for fd in list(self._outputs):
            self._lines(fd, reporter)
            level, logger, rest = self._outputs[fd]
            self._outputs[fd][2] = b""
            if rest:
                reporter.add(time.time(), level, logger, rest.decode("utf-8", "replace"))
        if self.spent:
            for fd in (self._requests, self._answers, *self._outputs):
                os.close(fd)
            self._outputs = {}

    def _fate(self):
        """Reap a child that has closed its pipes; return the answer with the reason."""
        deadline = time.monotonic() + 1
        while self._pid and time.monotonic() < deadline:
            pid, status, usage = os.wait4(self._pid, os.WNOHANG)
            if pid:
                self._killpg()
                self._pid = 0
                code = os.waitstatus_to_exitcode(status)
                if code == -signal.SIGKILL:
                    answer = {"error": "the interpreter died: killed by signal 9 (SIGKILL), by itself or for want of memory"}
                    return {**answer, "out_of_memory": True} if _most_memory(usage.ru_maxrss << 10) else answer
                return {"error": f"the interpreter died: {f'killed by signal {-code}' if code < 0 else f'exit status {code}'}"}
            time.sleep(0.01)
        return {"error": "the interpreter died: it closed its descriptors"}

    def _killpg(self):
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except OSError:
            pass

    def kill(self):
        """End the child and its process group."""
        if self._pid:
            self._killpg()
            os.waitpid(self._pid, 0)
            self._pid = 0


def _harden():
    """Deny tasks, which run as the same user, access to this process's memory and environment; adopt orphaned descendants."""
    if sys.platform == "linux":
        _prctl(_PR_SET_DUMPABLE, 0)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _descendants():
    """Return the ids of all descendants of this process."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The name, in parentheses, may contain anything.
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                pass
    found, more = set(), {os.getpid()}
    while more:
        more = {pid for pid, parent in parents.items() if parent in more} - found
        found |= more
    return found


def _end_descendants(seconds=2.0):
    """Kill all processes that a task left, also those in other sessions; return false if one survives."""
    if not os.path.isdir("/proc/self"):
        return True
    until = time.monotonic() + seconds
    while left := _descendants():
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def _most_memory(used):
    """Return whether used is most of the function's memory: when memory runs out, the kernel kills the largest process."""
    has = os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "")
    return has.isdecimal() and used > int(has) << 19


def _timed(answer, began):
    """Add the duration of the task's function to an answer."""
    if began is not None:
        answer["task_secs"] = round(time.monotonic() - began, 3)
    return answer


def _passing(error):
    """Return whether a download that failed with this error may succeed later: not after a 4xx error or an error of the local disk."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500 or error.code in (408, 429)
    return isinstance(error, (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError))


def _strict(output):
    """Decode an output, which a task may have written without the runner's encoder."""
    try:
        value = json.loads(output.decode("utf-8"), object_pairs_hook=_pairs)
    except (ValueError, RecursionError) as error:
        raise ArtifactSerializationError(f"the output is not JSON: {error}") from None
    _values.encode(value)
    return value


def _pairs(pairs):
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ArtifactSerializationError("the output has a key twice")
    return value


def _stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"
