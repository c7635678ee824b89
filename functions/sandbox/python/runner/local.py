"""The local transport: frames over two descriptors of the embedded server.

A frame is a length (4 bytes, big endian, of what follows), a kind (1 byte), a
nonce (16 bytes) and a body. Requests arrive on descriptor 3; everything else
leaves on descriptor 4 and repeats the nonce of the setup or request it answers.
The server draws a nonce for each of them and refuses any other, so that what a
task writes to the descriptor itself, early or late, never passes for the answer
to another request.

    S  setup     JSON   server to runner, once: confine yourself
    Y  ready     JSON   the answer: {"pid", "python"}, or {"error"}
    Q  request   JSON   one task
    B  reached   text   "inputs": the module is imported, inputs are to be fetched;
                        "function": the task's function begins, and its own time.
                        Neither is sent of a request that has "begun"
    E  event     JSON   [seconds, level, logger, message] or, of ctx.log with fields,
                        [seconds, level, logger, message, {…}]
    U  over             the task's own time is over, its output is being handed on
    O  output    bytes  the task's output, JSON
    F  fetch     text   the name of a task whose output the task takes; its thread waits for
    I  input     bytes  the output, JSON; server to runner
    N  no input  text   why there is none; server to runner
    P  save      bytes  a file that the task saves; its thread waits for K, A or N
    K  saved     text   the reference to it; server to runner
    A  again            the object store did not take it yet: send it again; server to runner
    G  open      text   the reference to a file that the task opens; its thread waits for I or N
    R  result    JSON   the answer of core.Executor.execute, or {"error"}: the runner's own trouble
"""

import json
import os
import sys
import threading
import time

from millrace import _files, _streams
from millrace.errors import TaskFailedError

from . import confine, core, hints, hygiene

REQUESTS, ANSWERS = 3, 4
HEAD = 1 + 16  # kind and nonce
MAX_FILE = (1 << 30) - HEAD
AT_ONCE = 32 << 10  # bytes that are read at once


class Channel:
    """Frames in both directions."""

    def __init__(self):
        self._lock = threading.Lock()
        self._asking = threading.Lock()  # an answer is read by who asked
        self._opened = 0
        self._main_thread = threading.get_ident()
        self._main_writing = False
        self._forked = False
        self._nonce = b""
        self._rest = b""  # read, and of the next frame
        self.broken = False
        os.set_inheritable(REQUESTS, False)
        os.set_inheritable(ANSWERS, False)
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self):
        # A process that the task forks writes plain lines: frames of two writers would mix.
        self._forked = True

    def read(self):
        """Return (kind, body) of the next frame; exit if the server has closed the pipe."""
        # Most frames arrive whole: one call reads length and body.
        data = self._some(AT_ONCE)
        if len(data) < 4:
            data += self._exactly(4 - len(data))
        end = 4 + int.from_bytes(data[:4], "big")
        if len(data) < end:
            data += self._exactly(end - len(data))
        elif len(data) > end:
            data, self._rest = data[:end], data[end:]
        self._nonce = data[5 : 4 + HEAD]
        return data[4:5], data[4 + HEAD :]

    def _some(self, most):
        """Read up to most bytes, at least one; exit if the server has closed the pipe."""
        if self._rest:
            data, self._rest = self._rest[:most], self._rest[most:]
            return data
        return os.read(REQUESTS, most) or os._exit(0)

    def _exactly(self, count):
        parts = []
        while count:
            parts.append(self._some(min(count, 1 << 20)))
            count -= len(parts[-1])
        return b"".join(parts)

    def fetch(self, name):
        """Ask the server for an input; an interruption leaves the pipe unusable."""
        with _Question(self):
            self.write((b"F", name.encode()))
            kind, body = self.read()
        if kind != b"I":
            raise core.TransferError("an input could not be fetched: " + body.decode("utf-8", "replace"))
        return body

    def save_file(self, path, name):
        """Send a file to the server; return its reference."""
        with _Question(self), open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_FILE:
                raise TaskFailedError(f"the file {name!r} has {size} bytes; at most {MAX_FILE} (1 GB) can be saved")
            kind = b"A"
            while kind == b"A":
                file.seek(0)
                self._write_file(file, size)
                kind, body = self.read()
        if kind != b"K":
            raise TaskFailedError(f"the file {name!r} could not be saved: " + body.decode("utf-8", "replace"))
        return body.decode()

    def _write_file(self, file, size):
        head = (size + HEAD).to_bytes(4, "big") + b"P" + self._nonce
        main = threading.get_ident() == self._main_thread
        self._main_writing = main or self._main_writing
        try:
            with self._lock:
                _write_all(head)
                while size:
                    chunk = file.read(min(size, 1 << 20))
                    # If the file is truncated meanwhile, it is padded: the frame has its length.
                    chunk = chunk or bytes(min(size, 1 << 20))
                    _write_all(chunk)
                    size -= len(chunk)
        finally:
            if main:
                self._main_writing = False

    def open_file(self, key, name):
        """Fetch a file from the server; return its path."""
        with _Question(self):
            self.write((b"G", key.encode()))
            size = int.from_bytes(self._exactly(4), "big") - HEAD
            head = self._exactly(HEAD)
            if head[:1] == b"I":
                self._opened += 1
                directory = os.path.join(hygiene.scratch or os.getcwd(), f".file-{self._opened}")
                path = os.path.join(directory, name if name and "/" not in name and name not in (".", "..") else "file")
                fault = self._read_file(directory, path, size)
            else:
                fault = self._exactly(size).decode("utf-8", "replace")
        if fault:
            raise TaskFailedError(f"the file {name!r} could not be opened: {fault}")
        return path

    def _read_file(self, directory, path, size):
        """Read a file from the pipe, completely even if it cannot be stored; return the error or None."""
        file = fault = None
        try:
            os.makedirs(directory, exist_ok=True)
            file = open(path, "wb", buffering=0)
        except OSError as error:
            fault = str(error)
        while size:
            data = self._some(min(size, 1 << 20))
            size -= len(data)
            try:
                while data and not fault:
                    data = data[file.write(data) :]
            except OSError as error:
                fault = str(error)
        if file is not None:
            file.close()
        return fault

    def write(self, *frames):
        """Write (kind, body) frames at once."""
        data = b"".join((len(body) + HEAD).to_bytes(4, "big") + kind + self._nonce + body for kind, body in frames)
        main = threading.get_ident() == self._main_thread
        if main:
            self._main_writing = True
        try:
            with self._lock:
                done = os.write(ANSWERS, data)
                if done < len(data):
                    rest = memoryview(data)
                    while done < len(data):
                        done += os.write(ANSWERS, rest[done:])
        finally:
            if main:
                self._main_writing = False

    def writing(self):
        return self._main_writing

    def emit(self, level, logger, message, fields=None):
        if self._forked:
            if fields:
                message += " " + json.dumps(fields)
            os.write(1 if logger == "stdout" else 2, (message + "\n").encode("utf-8", "replace"))
            return
        if len(message) > _streams.MAX_MESSAGE:
            message = message[:_streams.MAX_MESSAGE] + " …"
        event = json.dumps((time.time(), level, logger, message, *((fields,) if fields else ())))
        self.write((b"E", event.encode()))


class _Question:
    """Reserves the pipe for one request and its response; an interruption leaves it unusable."""

    def __init__(self, channel):
        self._channel = channel

    def __enter__(self):
        self._channel._asking.acquire()
        self._channel.broken = True

    def __exit__(self, kind, _error, _trace):
        if kind is None or issubclass(kind, TaskFailedError):
            self._channel.broken = False
        self._channel._asking.release()


def _write_all(data):
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(ANSWERS, rest) :]


def main():
    """Serve requests until the server closes its end."""
    channel = Channel()
    kind, body = channel.read()
    if kind != b"S":
        os._exit(2)
    setup = json.loads(body)
    try:
        places = confine.confine(setup)
    except Exception as error:
        channel.write((b"Y", json.dumps({"error": f"{type(error).__name__}: {error}"}).encode()))
        os._exit(3)
    confine.line_buffered()
    hygiene.scratch, hygiene.memory, hygiene.artifact = places.scratch, places.memory, places.artifact
    if hygiene.furnish():
        os.chdir(os.path.join(places.scratch, hygiene.WORK))
    hygiene.empty_size = os.stat(places.memory).st_size if places.memory else 0
    hygiene.alone = setup["mode"] == "namespaces" or setup.get("uid") is not None
    sys.argv[:] = ["millrace"]
    executor = core.Executor(
        places.artifact, channel.emit, channel.writing, lambda: channel.write((b"U", b"")), channel.fetch,
        lambda step: channel.write((b"B", step)),
    )
    _files.store, _files.fetch = channel.save_file, channel.open_file
    executor.hint = hints.explain(setup, places.scratch)
    ready = {"pid": os.getpid(), "python": ".".join(map(str, sys.version_info[:3]))}
    channel.write((b"Y", json.dumps(ready).encode()))
    while True:
        kind, body = channel.read()
        if kind != b"Q":
            os._exit(2)
        try:
            request = json.loads(body)
            request["has_files"] = _files.MARK in body
            answer, output = executor.execute(request)
        except core.TransferError as error:
            answer, output = {"error": str(error), "recycle": True}, None
        del body
        if channel.broken:
            answer["recycle"] = True
        result = (b"R", json.dumps(answer).encode())
        if output is None:
            channel.write(result)
        else:
            channel.write((b"O", output), result)
        del output
