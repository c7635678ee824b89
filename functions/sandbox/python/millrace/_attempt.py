"""One attempt of one task of a local run, in a process of its own."""

import json
import os
import selectors
import signal
import sys
import time

from . import _arguments, _builtin, _cel, _values
from ._context import Context
from .errors import ArtifactSerializationError, ExpressionError, MillraceError, TaskFailedError


class Attempt:
    """Runs a task in a forked process; output or error are set when it is over."""

    def __init__(self, entry, request, names, timeout, record):
        self.entry, self.request, self.names, self.timeout, self.record = entry, request, names, timeout, record
        self.output = self.error = None
        self.deadline = 0.0
        self.started_at = self.ended_at = 0.0
        self._answer = bytearray()
        self._line = b""
        self._finished = False
        self._pid = 0

    def start(self):
        self.log = self.record.open_log(self.entry.name, self.request["attempt"], self.request.get("map_index"))
        self._answers, answers = os.pipe()
        self._lines, lines = os.pipe()
        self.started_at = time.time()
        self.deadline = time.monotonic() + self.timeout
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            self._child(answers, lines)
        os.close(answers)
        os.close(lines)
        os.set_blocking(self._answers, False)
        os.set_blocking(self._lines, False)

    @staticmethod
    def watch(attempts, seconds):
        """Take what the attempts write, for some seconds at most."""
        with selectors.DefaultSelector() as selector:
            for attempt in attempts:
                selector.register(attempt._answers, selectors.EVENT_READ)
                selector.register(attempt._lines, selectors.EVENT_READ)
            # A process that hands its descriptors on may end without closing them.
            selector.select(max(0.0, min(seconds, 0.2)))
        for attempt in attempts:
            attempt._take()

    def over(self):
        """Whether the attempt has ended, by itself or by its time."""
        return self._finished

    def kill(self):
        """End the process and all it started."""
        self._finish(None)

    def _take(self):
        self._read_lines()
        ended = self._read_answer()
        if not ended and os.waitpid(self._pid, os.WNOHANG)[0] == self._pid:
            self._read_answer()
            self._pid = 0
            ended = True
        if ended:
            self._finish(self._result())
        elif time.monotonic() >= self.deadline:
            self._finish({"error": ["TaskTimeoutError", f"it ran past its timeout_secs ({self.timeout:g})"]})

    def _read_answer(self):
        for chunk in _chunks(self._answers):
            if not chunk:
                return True
            self._answer += chunk
        return len(self._answer) >= 8 and len(self._answer) - 8 >= int.from_bytes(self._answer[:8], "big")

    def _result(self):
        if len(self._answer) < 8:
            return {"error": ["TaskFailedError", "its process ended without an answer: it crashed, was killed, or called os._exit"]}
        return json.loads(self._answer[8:])

    def _finish(self, result):
        if self._pid:
            try:
                os.killpg(self._pid, signal.SIGKILL)
            except OSError:
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        self._read_lines()
        if self._line:
            self._write(self._line)
        os.close(self._answers)
        os.close(self._lines)
        self.log.close()
        self.ended_at = time.time()
        self._finished = True
        if result is None:
            self.error = ("Cancelled", "the run was stopped")
        elif "error" in result:
            self.error = tuple(result["error"])
        else:
            self.output = result["output"]

    def _read_lines(self):
        for chunk in _chunks(self._lines):
            *lines, self._line = (self._line + chunk).split(b"\n")
            for line in lines:
                self._write(line)
            if not chunk:
                return

    def _write(self, line):
        text = line.decode("utf-8", "replace").rstrip("\r")
        self.log.write(text + "\n")
        self.log.flush()
        self.record.log("info", self.entry.name, text)

    def _child(self, answers, lines):
        """Run the task; never returns."""
        code = 0
        try:
            os.setpgid(0, 0)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            os.dup2(lines, 1)
            os.dup2(lines, 2)
            keep = {0, 1, 2, answers}
            for descriptor in range(3, max(answers, lines) + 1):
                if descriptor not in keep and descriptor in (lines, self._answers, self._lines, self.log.fileno()):
                    os.close(descriptor)
            sys.stdout = open(1, "w", encoding="utf-8", errors="replace", buffering=1, closefd=False)
            sys.stderr = open(2, "w", encoding="utf-8", errors="replace", buffering=1, closefd=False)
            try:
                body = b'{"output":' + self._run() + b"}"
            except BaseException as error:  # noqa: B036: whatever it is, it is the task's end
                body = json.dumps({"error": _told(error)}).encode()
            sys.stdout.flush()
            sys.stderr.flush()
            data = memoryview(len(body).to_bytes(8, "big") + body)
            while data:
                data = data[os.write(answers, data) :]
        except BaseException:
            code = 1
        finally:
            os._exit(code)

    def _run(self):
        if self.entry.type != "python":
            config = self.entry.options["config"] or {}
            if self.entry.type != "transform":
                config = _cel.render(config, {**self.names, "secrets": _Secrets()})
            return _values.encode(_builtin.run(self.entry.type, config, self.names))
        request = {**self.request, "secrets": _Secrets()}
        special = {"ctx": Context(request, _print)}
        if "map_index" in request:
            special["item"], special["index"] = request["item"], request["map_index"]
        sources = (
            _arguments.from_mapping(special),
            _arguments.from_tasks(request["inputs"], lambda given: given["value"]),
            _arguments.from_mapping(request["params"]),
        )
        function = self.entry.source.__millrace_function__
        args, kwargs = _arguments.fill(_arguments.parameters(function), sources, self.entry.name)
        return _values.encode(_arguments.call(function, args, kwargs))


class _Secrets(dict):
    """Secrets of a local run: the environment's MILLRACE_SECRET_<NAME>."""

    def __missing__(self, name):
        variable = "MILLRACE_SECRET_" + name.upper()
        if variable not in os.environ:
            raise TaskFailedError(f"there is no secret {name!r}: a local run takes it from the environment variable {variable}")
        return os.environ[variable]

    def __contains__(self, name):
        return "MILLRACE_SECRET_" + str(name).upper() in os.environ

    def __bool__(self):
        return True


def _print(level, _logger, message):
    print(message if level == "info" else f"{level.upper()}: {message}", flush=True)


def _told(error):
    if isinstance(error, ArtifactSerializationError):
        return ["ArtifactSerializationError", str(error)]
    if isinstance(error, (ExpressionError, TaskFailedError)):
        return ["TaskFailedError", str(error)]
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in (__name__, _arguments.__name__):
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)
    kind = type(error).__name__
    if isinstance(error, MillraceError) and kind == "TaskTimeoutError":
        return [kind, str(error)]
    return ["TaskFailedError", f"{kind}: {error}" if str(error) else kind]


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
