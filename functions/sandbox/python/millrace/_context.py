"""The ``ctx`` argument of a task."""

from __future__ import annotations

import json

from ._types import TYPE_CHECKING
from .errors import TaskFailedError

if TYPE_CHECKING:
    import os

    from ._files import File
    from ._types import Any

MAX_FIELDS = 16 << 10  # bytes of JSON
_MAX_FIELD, _MAX_PARTS, _MAX_DEPTH = 2000, 100, 5
LEVELS = ("debug", "info", "warning", "error", "critical")


class Context:
    """Information about the run of a task, and the service's functions for tasks.

    run_id, flow_name, task_name: strings; attempt: 1 for the first; params: the
    run's parameters; traceparent: the attempt's position in its run's trace, by W3C
    Trace Context, "" in a local run.
    """

    __slots__ = ("run_id", "flow_name", "flow_version", "task_name", "task_run_id", "attempt", "params", "traceparent", "_secrets", "_emit")

    run_id: str
    flow_name: str
    flow_version: str
    task_name: str
    task_run_id: str
    attempt: int
    params: dict[str, Any]
    traceparent: str

    def __init__(self, request, emit):
        self.run_id = request.get("run_id", "")
        self.flow_name = request.get("flow_name", "")
        self.flow_version = request.get("flow_version", "")
        self.task_name = request.get("task_name", "")
        self.task_run_id = request.get("task_run_id", "")
        self.attempt = request.get("attempt", 1)
        self.params = request.get("params") or {}
        self.traceparent = request.get("traceparent", "")
        self._secrets = request.get("secrets") or {}
        self._emit = emit

    def log(self, message: object, level: str = "info", **fields: Any) -> None:
        """Write a log event; fields are added to it as JSON.

        Values that are not JSON are written as text; fields of more than 16 KB in
        total are truncated."""
        level = str(level).lower()
        if level == "warn":
            level = "warning"
        if level not in LEVELS:
            raise ValueError(f"level is one of {', '.join(LEVELS)}, not {level!r}")
        self._emit(level, "task", str(message), _fields(fields))

    def secret(self, name: str) -> str:
        """Return the value of a secret: of the run's environment, else of the workspace.

        The task gets the secrets that it names: in ctx.secret("NAME"), or in
        @task(secrets=["NAME"]) if the name is not a literal in the function."""
        try:
            return self._secrets[name]
        except KeyError:
            raise TaskFailedError(f"the task does not name the secret {name!r}: add it to @task(secrets=[...])") from None

    def save_file(self, path: str | os.PathLike[str], name: str | None = None) -> File:
        """Store the file at path and return the File that refers to it.

        Return it, alone or within the output: a later task opens it, as
        ``file.open()``, ``file.path`` or ``open(file)``. name: its own by default."""
        from . import _files

        return _files.save(path, name)

    def __repr__(self):
        return f"<ctx {self.flow_name}/{self.task_name} run {self.run_id} attempt {self.attempt}>"


def _fields(fields):
    """Return fields as a JSON object within MAX_FIELDS bytes, None without any."""
    out, size = {}, 40
    for number, (key, value) in enumerate(fields.items()):
        value = _field(value)
        size += len(json.dumps([key, value])) + 2
        if size > MAX_FIELDS:
            out["…"] = f"{len(fields) - number} more fields were cut"
            break
        out[key] = value
    return out or None


def _field(value, depth=0):
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 1 << 63:
        return int(value)
    if isinstance(value, float) and value - value == 0:  # neither NaN nor infinite
        return float(value)
    if isinstance(value, (list, tuple)) and depth < _MAX_DEPTH:
        return [_field(part, depth + 1) for part in value[:_MAX_PARTS]]
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        return {_text(key): _field(part, depth + 1) for key, part in list(value.items())[:_MAX_PARTS]}
    return _text(value)


def _text(value):
    try:
        text = str(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose str() raised {type(error).__name__}>"
    if len(text) > _MAX_FIELD:
        text = text[:_MAX_FIELD] + "…"
    return text.encode("utf-8", "replace").decode()
