"""One attempt of one task of a local run, in a process of its own.

The process writes frames to a pipe: a length (8 bytes), a kind (1 byte) and JSON.

    E  [seconds, level, logger, message, fields or null]: a log event
    O  the output
    X  {type, message, exception, traceback}: why there is none

What bypasses Python arrives on the descriptors of standard output and error.
"""

import json
import os
import selectors
import shutil
import signal
import sys
import tempfile
import threading
import time

from . import _arguments, _builtin, _cel, _files, _modules, _secrets, _streams, _typed, _values
from ._context import Context
from ._record import with_fields
from .errors import ArtifactSerializationError, ExpressionError, MillraceError, TaskTimeoutError

# Seconds from a task's timeout until its process is killed, and between interruptions until then.
GRACE_SECS, AGAIN_SECS = 1.0, 0.25
MAX_TRACEBACK = 4096
_STREAMS = (("info", "stdout"), ("warning", "stderr"))


class Interrupted(BaseException):
    """Raised in the task by the alarm when its timeout has passed."""


def failure(kind, message, exception=None, traceback=None):
    """Return why an attempt has no output, in the words of the service."""
    return {"type": kind, "message": message, "exception": exception, "traceback": traceback}


class Attempt:
    """Runs a task in a forked process; output or error is set when it has ended."""

    def __init__(self, entry, request, names, timeout, record):
        self.entry, self.request, self.names, self.timeout, self.record = entry, request, names, timeout, record
        self.output = self.error = None
        self.has_files = False  # the output may refer to some
        self.deadline = 0.0
        self.started_at = self.ended_at = 0.0
        self._frames = bytearray()
        self._result = self._status = None
        self._lines = {}
        self._finished = False
        self._pid = 0
        self._scratch = ""

    def start(self):
        self.log = self.record.open_log(self.entry.name, self.request["attempt"], self.request.get("map_index"))
        self._scratch = self.record.scratch(self.entry.name, self.request["attempt"], self.request.get("map_index"))
        pipes = [os.pipe() for _ in range(3)]
        self._answers = pipes[0][0]
        self._lines = {pipes[1][0]: [*_STREAMS[0], b""], pipes[2][0]: [*_STREAMS[1], b""]}
        self.started_at = time.time()
        self.deadline = time.monotonic() + self.timeout + GRACE_SECS
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            self._child(*(write for _, write in pipes))
        for read, write in pipes:
            os.close(write)
            os.set_blocking(read, False)

    @staticmethod
    def watch(attempts, seconds):
        """Read the output of the attempts, for some seconds at most."""
        with selectors.DefaultSelector() as selector:
            for attempt in attempts:
                for descriptor in attempt.descriptors():
                    selector.register(descriptor, selectors.EVENT_READ)
            # A process that has passed its descriptors on may exit without closing them.
            selector.select(max(0.0, min(seconds, 0.2)))
        for attempt in attempts:
            attempt.take()

    def descriptors(self):
        return [self._answers, *self._lines] if not self._finished else []

    def over(self):
        """Whether the attempt has ended, by itself or by its timeout."""
        return self._finished

    def stop(self, why):
        """Kill the process and its descendants."""
        self._finish(failure("CancelledError", why))

    def take(self):
        """Read the process's output and check whether it has ended."""
        if self._finished:
            return
        self._read_lines()
        closed = self._read_frames()
        if self._result is None and self._ended(1.0 if closed else 0.0):
            self._read_frames()  # what it wrote last
        if self._result is not None or self._status is not None or closed:
            self._finish(self._result or self._fate())
        elif time.monotonic() >= self.deadline:
            self._finish(failure("TaskTimeoutError", f"the task ran past its timeout_secs ({self.timeout:g}) and was killed"))

    def _read_frames(self):
        """Handle the frames that can be read; true at the end of the pipe."""
        closed = False
        for chunk in _chunks(self._answers):
            closed = not chunk
            self._frames += chunk
        while self._result is None and len(self._frames) >= 9:
            size = int.from_bytes(self._frames[:8], "big")
            if len(self._frames) < 9 + size:
                break
            kind, body = self._frames[8:9], bytes(self._frames[9 : 9 + size])
            del self._frames[: 9 + size]
            if kind == b"E":
                self._event(*json.loads(body))
            else:
                self._result = {"output": json.loads(body)} if kind == b"O" else json.loads(body)
                self.has_files = _files.MARK in body
        return closed

    def _ended(self, seconds):
        """Return whether the process has ended, or ends within some seconds."""
        until = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._pid, self._status = 0, status
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(0.005)

    def _fate(self):
        """Describe how a process ended without a result, in the words of the service."""
        if self._status is None:
            return failure("SandboxError", "the interpreter stopped answering")
        code = os.waitstatus_to_exitcode(self._status)
        if code == -signal.SIGKILL:
            return failure("SandboxError", "the interpreter died: killed by signal 9 (SIGKILL), by itself or for want of memory")
        if code < 0:
            return failure("SandboxError", f"the interpreter died: killed by signal {-code} ({(signal.strsignal(-code) or 'unknown').lower()})")
        return failure("SandboxError", f"the interpreter died: exit status {code}")

    def _finish(self, result):
        if self._pid:
            try:
                os.killpg(self._pid, signal.SIGKILL)
            except OSError:
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
        self._read_lines()
        for stream in self._lines.values():
            if stream[2]:
                self._line(stream, stream[2])
        for descriptor in (self._answers, *self._lines):
            os.close(descriptor)
        self.log.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
        self.ended_at = time.time()
        self._finished = True
        if "type" in result:
            self.error = result
        else:
            self.output = result["output"]

    def _read_lines(self):
        for descriptor, kept in self._lines.items():
            for chunk in _chunks(descriptor):
                *lines, rest = (kept[2] + chunk).split(b"\n")
                for line in lines:
                    self._line(kept, line)
                # A line without a newline must not fill the memory.
                while len(rest) > _streams.MAX_LINE:
                    self._line(kept, rest[: _streams.MAX_LINE])
                    rest = rest[_streams.MAX_LINE :]
                kept[2] = rest

    def _line(self, stream, line):
        """Log a line of a stream, in several events if it is longer than an event of the service."""
        for start in range(0, max(len(line), 1), _streams.MAX_LINE):
            text = line[start : start + _streams.MAX_LINE].removesuffix(b"\r").decode("utf-8", "replace")
            self._event(time.time(), *stream[:2], text, None)

    def _event(self, seconds, level, logger, message, fields):
        self.log.write(with_fields(message, fields) + "\n")
        self.log.flush()
        self.record.event(level, message, self, logger, fields, seconds)

    def _child(self, answers, out, err):
        """Run the task; never returns."""
        code = 0
        try:
            os.setpgid(0, 0)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
            os.dup2(out, 1)
            os.dup2(err, 2)
            for descriptor in {out, err, self._answers, *self._lines, self.log.fileno()} - {0, 1, 2, answers}:
                os.close(descriptor)
            writer = _Writer(answers)
            _streams.replace(writer.emit)
            _streams.install_logging(writer.emit)
            kind, body = self._outcome(writer)
            sys.stdout.finish()
            sys.stderr.finish()
            writer.write(kind, body)
        except BaseException:
            code = 1
        finally:
            os._exit(code)

    def _outcome(self, writer):
        try:
            try:
                writer.alarm(self.timeout)
                return b"O", self._run(writer.emit)
            finally:
                writer.disarm()
        except Interrupted:
            return b"X", json.dumps(failure("TaskTimeoutError", f"the task ran past its timeout_secs ({self.timeout:g})")).encode()
        except BaseException as error:  # noqa: B036: whatever it is, it is the task's end
            return b"X", json.dumps(told(error, writer.emit)).encode()

    def _run(self, emit):
        warn = lambda message: emit("warning", "millrace", message)
        if self.entry.type != "python":
            config = self.entry.options["config"] or {}
            if self.entry.type != "transform":
                config = _cel.render(config, {**self.names, "secrets": _secrets.Environment()}, "config")
            return _values.encode(_builtin.run(self.entry.type, config, self.names, emit), warn=warn)
        request = self.request
        _files.store = lambda path, name: self.record.keep_file(self.entry.name, request["attempt"], request.get("map_index"), path, name)
        function = self.entry.source.__millrace_function__
        os.chdir(_modules.root_of(function.__module__))
        # Concurrent attempts may write files of the same name, as in the service.
        os.environ["TMPDIR"] = tempfile.tempdir = self._scratch
        args, kwargs = filled(function, request, Context({**request, "secrets": dict(_secrets.Environment(_secrets.of_task(self.entry)))}, emit))
        return _values.encode(_arguments.call(function, args, kwargs), warn=warn)


class _Writer:
    """Writes frames, from any thread; an alarm does not interrupt one."""

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._main = threading.get_ident()
        self._busy = self._armed = self._forked = False
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self):
        # A process that the task forks writes plain lines: frames of two writers would mix.
        self._forked = True

    def emit(self, level, logger, message, fields=None):
        if self._forked:
            os.write(1 if logger == "stdout" else 2, (message + "\n").encode("utf-8", "replace"))
            return
        if len(message) > _streams.MAX_MESSAGE:
            message = message[: _streams.MAX_MESSAGE] + " …"
        self.write(b"E", json.dumps((time.time(), level, logger, message, fields), default=str).encode())

    def write(self, kind, body):
        data = memoryview(len(body).to_bytes(8, "big") + kind + body)
        main = threading.get_ident() == self._main
        self._busy = main or self._busy
        try:
            with self._lock:
                while data:
                    data = data[os.write(self._descriptor, data) :]
        finally:
            if main:
                self._busy = False

    def alarm(self, seconds):
        self._armed = True
        signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001), AGAIN_SECS)

    def disarm(self):
        self._armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, _number, _frame):
        if self._armed and not self._busy:
            raise Interrupted


class Stub(Attempt):
    """An attempt of a stubbed task: an output, an exception, or a function to call."""

    def __init__(self, entry, request, record, value):
        super().__init__(entry, request, {}, 0, record)
        self._value = value

    def start(self):
        self.log = self.record.open_log(self.entry.name, self.request["attempt"], self.request.get("map_index"))
        self.started_at = time.time()
        emit = lambda level, logger, message, fields=None: self._event(time.time(), level, logger, message, fields)
        try:
            value = self._value
            if isinstance(value, BaseException):
                raise value
            if callable(value):
                args, kwargs = filled(value, self.request, Context({**self.request, "secrets": _secrets.Environment()}, emit))
                value = _arguments.call(value, args, kwargs)
            data = _values.encode(value, warn=lambda message: emit("warning", "millrace", message))
            self.output, self.has_files = json.loads(data), _files.MARK in data
        except Exception as error:
            self.error = told(error, emit)
        self.log.close()
        self.ended_at = time.time()
        self._finished = True

    def stop(self, _why):
        """Do nothing: it has ended when it begins."""


def filled(function, request, ctx):
    """Return (args, kwargs) of a task's function, as the service's runner fills them."""
    special = {"ctx": ctx}
    for name in ("item", "failed", "failed_count"):
        if name in request:
            special[name] = request[name]
    if "item" in request:
        special["index"] = request["map_index"]
    sources = [_arguments.from_mapping(special)]
    if request["arguments"] is not None:
        sources.append(_arguments.from_mapping(request["arguments"]))
    else:
        sources.append(_arguments.from_tasks(request["inputs"], lambda given: given["value"]))
        sources.append(_arguments.from_mapping(request["params"]))
    return _arguments.fill(_arguments.parameters(function), sources, request["task_name"], _typed.hints(function), request["has_files"])


def told(error, emit):
    """Convert an exception to a failure and log its traceback."""
    if isinstance(error, (ArtifactSerializationError, TaskTimeoutError)):
        return failure(type(error).__name__, str(error))
    if isinstance(error, (ExpressionError, _builtin.HttpError)):
        return failure(type(error).__name__, str(error))
    trace = last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if isinstance(error, MillraceError) and last is not None and _ours(last):
        return failure("TaskFailedError", str(error))  # a refusal of ours is clear without a traceback
    while trace is not None and _ours(trace):
        trace = trace.tb_next
    import traceback

    text = "".join(traceback.format_exception(type(error), error, trace)).rstrip()
    emit("error", "traceback", text)
    kind = type(error).__name__
    message = f"SystemExit: the task called exit with {error.code!r}" if isinstance(error, SystemExit) else f"{kind}: {error}" if str(error) else kind
    return failure("TaskFailedError", message[:2000], kind, text[-MAX_TRACEBACK:])


def _ours(trace):
    return trace.tb_frame.f_globals.get("__name__", "").startswith("millrace.")


def _chunks(descriptor):
    """Yield what can be read now; an empty chunk at the end of the pipe."""
    while True:
        try:
            chunk = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return
        yield chunk
        if not chunk:
            return
