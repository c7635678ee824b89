"""Runs one task request, for the embedded server and for Lambda alike."""

import errno
import json
import os
import signal
import sys
import time

from millrace import _arguments, _files, _streams as streams, _typed, _values
from millrace._context import Context
from millrace.errors import ArtifactSerializationError, MillraceError, TaskFailedError, TaskTimeoutError

from . import hygiene
from .masking import Masker

INLINE_BYTES = 32 << 10
DEFAULT_TIMEOUT_SECS = 600.0
IMPORT_TIMEOUT_SECS = 60.0
MAX_TRACEBACK = 4 << 10
# A task that swallows the first interruption gets another one this often.
_AGAIN_SECS = 0.25
_root = ""  # of the artifact, with a slash at its end


class Interrupted(BaseException):
    """Raised in the task by the alarm: it is past its time."""


class Executor:
    """Runs requests one after another against one artifact directory.

    ``emit(level, logger, message, fields=None)`` takes log events from any thread.
    ``reach(step)`` is told what the attempt has come to: b"inputs" when the module
    is imported and inputs are to be fetched, b"function" when the task's function
    begins, and with it the task's own time; not of a request that has ``begun``: its
    caller counts the task's time from the request, because an earlier one has
    imported the module and no input is to be fetched.
    ``writing()`` tells whether the main thread is inside emit: the alarm must
    not tear a half-written event apart. ``over()`` is called when the task's own
    time is over and a large output is left to hand on. ``fetch(name)`` returns
    the JSON of an input that comes without a link.
    """

    def __init__(self, artifact, emit, writing=lambda: False, over=lambda: None, fetch=None, reach=lambda step: None):
        self._fetch = fetch
        self._reach = reach
        self._emit = emit
        self._writing = writing
        self._over = over
        self._entrypoints = {}
        # A sentence for the message of an exception that has to do with how tasks are shut in.
        self.hint = lambda error: ""
        self._armed = False
        self._late = ""
        self._handler = self._alarm
        signal.signal(signal.SIGALRM, self._handler)
        global _root
        _root = os.path.join(os.path.abspath(artifact), "") if artifact else ""
        if artifact and artifact not in sys.path:
            sys.path.insert(0, artifact)
        streams.install_logging(emit)

    def execute(self, request):
        """Run one request; return (answer, output): a dict and the output's JSON bytes or None.

        The answer has either ``failure`` {type, message, exception, traceback} or, when the output was
        put to ``output_url``, ``output_ref`` and ``output_bytes``. ``recycle`` is
        true when the task left threads or processes behind, so that this
        interpreter must not run another.
        """
        # Before the snapshot, so that it is nothing to put back; the next request sets its own.
        if trace := request.get("traceparent"):
            os.environ["TRACEPARENT"] = trace
        else:
            os.environ.pop("TRACEPARENT", None)
        before = hygiene.Snapshot()
        out, err = streams.replace(self._emit)
        answer, output = {}, None
        timeout = float(request.get("timeout_secs") or DEFAULT_TIMEOUT_SECS)
        try:
            try:
                output = self._run(request, timeout)
            finally:
                self._disarm()
            if len(output) > INLINE_BYTES:
                self._over()
            if len(output) > INLINE_BYTES and request.get("output_url"):
                output = Masker((request.get("secrets") or {}).values()).mask_json(output)
                _put(request["output_url"], output)
                answer, output = {"output_ref": True, "output_bytes": len(output)}, None
        except Interrupted as error:
            self._disarm()
            answer = _failure("TaskTimeoutError", self._late, traceback=_traceback(error, self._late))
        except (ArtifactSerializationError, TaskTimeoutError) as error:
            answer = _failure(type(error).__name__, str(error), traceback=_traceback(error))
        except TransferError:
            raise
        except BaseException as error:  # noqa: B036: SystemExit and KeyboardInterrupt end the task, not the interpreter
            answer = self._failed(error)
        if "failure" in answer:
            output = None
        out.finish()
        err.finish()
        if before.restore():
            answer["recycle"] = True
        return answer, output

    def _run(self, request, timeout):
        entrypoint = request["entrypoint"]
        known = self._entrypoints.get(entrypoint)
        if known is None:
            allowed = float(request.get("import_timeout_secs") or IMPORT_TIMEOUT_SECS)
            self._late = f"importing the module of {entrypoint} took longer than the {allowed:g} s that it has"
            self._arm(allowed)
            known = self._function(entrypoint)
            self._disarm()
        function, wanted, hints = known
        # Otherwise nothing precedes the function, as the caller knows.
        tells = not request.get("begun")
        if tells and any("value" not in given for given in (request.get("inputs") or {}).values()):
            self._reach(b"inputs")
        args, kwargs = _arguments.fill(wanted, self._sources(request), request.get("task_name", ""), hints, request.get("has_files", False))
        self._late = f"the task ran past its timeout_secs ({timeout:g})"
        if tells:
            self._reach(b"function")
        self._arm(timeout)
        result = _arguments.call(function, args, kwargs)
        return _values.encode(result, warn=lambda message: self._emit("warning", "millrace", message))

    def _sources(self, request):
        special = {"ctx": Context(request, self._emit)}
        if request.get("map_index") is not None:
            special["item"] = request.get("item")
            special["index"] = request["map_index"]
        if request.get("failed") is not None:
            special["failed"], special["failed_count"] = request["failed"], request.get("failed_count", 0)
        inputs = _arguments.from_tasks(request.get("inputs") or {}, self._load)
        if request.get("only_inputs"):
            return (_arguments.from_mapping(special), inputs)
        return (_arguments.from_mapping(special), inputs, _arguments.from_mapping(request.get("params") or {}))

    def _load(self, given):
        return _decoded(self._fetch(given["fetch"])) if "fetch" in given else _load(given)

    def _function(self, entrypoint):
        module_name, _, path = entrypoint.partition(":")
        if not module_name or not path:
            raise TaskFailedError(f"the entrypoint {entrypoint!r} is not of the form module:function")
        __import__(module_name)
        target = sys.modules[module_name]
        for name in path.split("."):
            try:
                target = getattr(target, name)
            except AttributeError:
                raise TaskFailedError(f"the artifact's module {module_name!r} has no {path!r}") from None
        function = _arguments.plain(target)
        if not callable(function):
            raise TaskFailedError(f"{entrypoint!r} is not a function")
        self._entrypoints[entrypoint] = function, _arguments.parameters(function), _typed.hints(function)
        return self._entrypoints[entrypoint]

    def _arm(self, seconds):
        self._armed = True
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001), _AGAIN_SECS)

    def _disarm(self):
        self._armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _alarm(self, _number, _frame):
        if self._armed and not self._writing():
            raise Interrupted

    def _failed(self, error):
        trace = _traceback(error)
        kind = type(error).__name__
        if isinstance(error, MillraceError) and error.__traceback__ is not None and _raised_here(error):
            return _failure("TaskFailedError", str(error), kind if trace else "", trace)
        self._emit("error", "traceback", trace or kind)
        if isinstance(error, SystemExit):
            message = f"SystemExit: the task called exit with {error.code!r}"
        else:
            text = _text(error)
            message = f"{kind}: {text}" if text else kind
        if isinstance(error, MemoryError):
            message += " (the task went over its memory)"
        if isinstance(error, OSError) and error.errno == errno.EROFS and not os.path.isabs(str(error.filename)):
            message += " (what was deployed with the flow is read-only: write to another name, or leave the file out of the flow's folder)"
        return _failure("TaskFailedError", message[:2000] + self.hint(error), kind, trace)


class TransferError(Exception):
    """An input could not be fetched or the output not stored: not the task's fault."""


def _failure(kind, message, exception="", traceback=""):
    if len(traceback) > MAX_TRACEBACK:
        traceback = "…\n" + traceback[-MAX_TRACEBACK:].partition("\n")[2]  # its end tells most
    failure = {"type": kind, "message": message, "exception": exception, "traceback": traceback}
    return {"failure": {name: value for name, value in failure.items() if value}}


def _homes():
    """The directories of the runner and of the package, wherever they were found."""
    return tuple(os.path.abspath(directory) + os.sep for package in ("runner", "millrace") for directory in (
        *sys.modules[package].__path__, os.path.dirname(sys.modules[package].__file__)))


def _raised_here(error):
    # The runner's own refusals (a missing argument, a bad entrypoint) are clear
    # without a traceback of the runner.
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return os.path.abspath(trace.tb_frame.f_code.co_filename).startswith(_homes())


def _traceback(error, told=None):
    """Return the traceback of the task's own code, "" if none of it is in it.

    Frames of the runner are left out, and files of the artifact are named from its
    root. told replaces the last line."""
    import traceback

    try:
        whole = traceback.TracebackException(type(error), error, error.__traceback__)
        if not _cut(whole, _homes()):
            return ""
        lines = list(whole.format())
        if told is not None:
            lines[-1] = f"TaskTimeoutError: {told}\n"
        return "".join(lines).rstrip()
    except Exception:
        return ""


def _cut(whole, homes):
    """Take the frames of homes out of a traceback and of what caused it; tell whether others are left."""
    left, todo = False, [whole]
    while todo:
        one = todo.pop()
        one.stack[:] = [f for f in one.stack if not f.filename.startswith(homes) and not f.filename.startswith("<frozen importlib")]
        for frame in one.stack:
            left = True
            if _root and frame.filename.startswith(_root):
                frame.filename = frame.filename[len(_root) :]
        todo += [e for e in (one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())) if e is not None]
    return left


def _text(error):
    try:
        return str(error)
    except Exception:
        return ""


def _decoded(data):
    """Return the value of an input; references to files in it are seen in its bytes."""
    value = json.loads(data)
    return _typed.files(value) if _files.MARK in data else value


def _load(given):
    if "url" not in given:
        return given.get("value")
    import urllib.request

    def get():
        with urllib.request.urlopen(given["url"], timeout=60) as answer:
            return answer.read()

    return _decoded(_transfer(get, "an input could not be fetched"))


def _put(url, data):
    import urllib.request

    def put():
        request = urllib.request.Request(url, data=data, method="PUT", headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300):
            return

    _transfer(put, "the output could not be stored")


def _transfer(request, fault):
    """Make a request to the object store."""
    import http.client

    from .links import repeat

    try:
        return repeat(request)
    except (OSError, http.client.HTTPException) as error:
        # The URL is a credential: it never appears in a message.
        raise TransferError(f"{fault}: {type(error).__name__} {getattr(error, 'code', '')}".rstrip()) from None
