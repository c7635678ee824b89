"""The child process in which the Lambda transport runs tasks."""

import fcntl
import json
import os
import select
import selectors
import shutil
import signal
import sys
import time

from millrace import _values
from millrace.errors import ArtifactSerializationError

from .core import DEFAULT_TIMEOUT_SECS, IMPORT_TIMEOUT_SECS
from .links import BusyError, FileError, Links, TransferError, read
from .local import HEAD, MAX_FILE

_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from runner.init import init; init(); from runner.local import main; main()"
_GRACE_SECS = 1.0
_START_SECS = 20.0  # for an interpreter to start
_UPLOAD_SECS = 600.0
_MAX_LINE = 64 << 10
_CHUNK = 1 << 20  # of a file


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
        until = 0
        try:
            kind, body = b"K", links.save(chunks, size).encode()
        except FileError as error:
            kind, body = b"N", str(error).encode()
        except BusyError as error:  # the child has the file; there may be no room for another copy
            kind, body, until = b"A", b"", time.monotonic() + error.seconds
        for _ in chunks:  # read the bytes that were not stored
            pass
        while (left := until - time.monotonic()) > 0:
            wait(0)
            time.sleep(min(left, 0.25))
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


def _most_memory(used):
    """Return whether used is most of the function's memory: when memory runs out, the kernel kills the largest process."""
    has = os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "")
    return has.isdecimal() and used > int(has) << 19


def _timed(answer, began):
    """Add the duration of the task's function to an answer."""
    if began is not None:
        answer["task_secs"] = round(time.monotonic() - began, 3)
    return answer


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
