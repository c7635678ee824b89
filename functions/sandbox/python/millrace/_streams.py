"""Standard output, standard error and logging as log events."""

import io
import sys

# A longer line is split into several events.
MAX_LINE = 64 << 10
# A longer message of ctx.log or logging is truncated.
MAX_MESSAGE = 256 << 10
LEVELS = {"stdout": "info", "stderr": "warning"}


class LineStream(io.TextIOBase):
    """A text stream that emits an event for each line, in the order of all other events.

    What bypasses Python (C code, subprocesses) writes to the descriptor, which
    the transport reads; ``fileno`` and ``buffer`` refer to it.
    """

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, name, descriptor, emit):
        self.name = f"<{name}>"
        self._logger = name
        self._level = LEVELS[name]
        self._descriptor = descriptor
        self._emit = emit
        self._rest = ""
        self._buffer = None

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        # The remainder is moved to a local variable first, so that a write by a signal
        # handler or another thread does not repeat it.
        data, self._rest = self._rest + text, ""
        if "\n" in data or len(data) > MAX_LINE:
            *lines, data = data.split("\n")
            for line in lines:
                self._line(line)
            while len(data) > MAX_LINE:
                self._line(data[:MAX_LINE])
                data = data[MAX_LINE:]
        self._rest = data + self._rest
        return len(text)

    def _line(self, line):
        line = line[:-1] if line.endswith("\r") else line
        # A blank line is an event, too.
        for start in range(0, max(len(line), 1), MAX_LINE):
            self._emit(self._level, self._logger, line[start : start + MAX_LINE])

    def finish(self):
        """Emit the last line if it has no newline."""
        rest, self._rest = self._rest, ""
        if rest:
            self._line(rest)
        if self._buffer is not None:
            try:
                self._buffer.flush()
            except (OSError, ValueError):
                pass

    def flush(self):
        if self._buffer is not None:
            self._buffer.flush()

    def fileno(self):
        return self._descriptor

    def writable(self):
        return True

    def isatty(self):
        return False

    def close(self):
        """Do nothing: the stream belongs to the runner."""

    @property
    def buffer(self):
        if self._buffer is None:
            self._buffer = io.BufferedWriter(io.FileIO(self._descriptor, "w", closefd=False))
        return self._buffer


def replace(emit):
    """Replace sys.stdout and sys.stderr by event streams; return both."""
    out = LineStream("stdout", 1, emit)
    err = LineStream("stderr", 2, emit)
    sys.stdout, sys.stderr = out, err
    return out, err


def install_logging(emit):
    """Send logging records to emit with their level and logger, from INFO up."""
    import logging

    class EventHandler(logging.Handler):
        def emit(self, record):
            try:
                message = self.format(record)
            except Exception as error:
                message = f"{record.msg!r} (the record could not be formatted: {error!r})"
            emit(level_name(record.levelno), record.name, message)

    logging.root.handlers[:] = [EventHandler()]
    logging.root.setLevel(logging.INFO)
    # At the interpreter's exit the descriptors would already be closed.
    logging.raiseExceptions = False


def level_name(number):
    for limit, name in ((50, "critical"), (40, "error"), (30, "warning"), (20, "info")):
        if number >= limit:
            return name
    return "debug"
