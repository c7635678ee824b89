"""The responses of the service as values. ``raw`` is the response itself."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from .errors import RunFailedError

ENDED = frozenset(("SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED"))

_R = TypeVar("_R", bound="_Record")


def instant(text: str | None) -> datetime.datetime | None:
    """Return the time of an RFC 3339 text, with its zone; None for None."""
    if text is None:
        return None
    # Python 3.10 takes three or six digits of a second, and no Z.
    match = re.fullmatch(r"(.{19})(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", text)
    if match is None:
        raise ValueError(f"{text!r} is no time of RFC 3339")
    fraction = (match[2] or "")[:6].ljust(6, "0")
    return datetime.datetime.fromisoformat(f"{match[1]}.{fraction}{'+00:00' if match[3] == 'Z' else match[3]}")


@dataclasses.dataclass(frozen=True)
class _Record:
    raw: Mapping[str, Any] = dataclasses.field(repr=False, compare=False)

    _names: ClassVar[Mapping[str, str]] = {}  # in the answer, where they differ
    _times: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def of(cls: type[_R], raw: Mapping[str, Any]) -> _R:
        """Return the record of a response. Unknown fields are in raw."""
        values = {f.name: raw.get(cls._names.get(f.name, f.name)) for f in dataclasses.fields(cls) if f.name != "raw"}
        return cls(raw=raw, **{name: instant(value) if name in cls._times else value for name, value in values.items()})


@dataclasses.dataclass(frozen=True)
class LogEvent(_Record):
    """An event of a run's log: a line (``event_type`` log), or a change of a task or the run."""

    _names = {"time": "timestamp", "task": "task_name"}
    _times = frozenset(("time",))

    time: datetime.datetime
    message: str
    event_type: str
    level: str | None
    task: str | None
    map_index: int | None
    attempt: int | None
    logger: str | None
    fields: Mapping[str, Any] | None

    def __str__(self) -> str:
        task = (self.task or "") + (f"[{self.map_index}]" if self.map_index is not None else "")
        return " ".join(filter(None, (self.time.isoformat(timespec="milliseconds"), (self.level or "").upper(), task, self.message)))


@dataclasses.dataclass(frozen=True)
class TaskRun(_Record):
    """One attempt of a task, or of an instance of a mapped one (``map_index``)."""

    _times = frozenset(("started_at", "ended_at"))

    task_name: str
    task_run_id: str
    map_index: int | None
    attempt: int
    status: str
    reason: str | None
    started_at: datetime.datetime | None
    ended_at: datetime.datetime | None
    duration_ms: int | None
    error_type: str | None
    error_message: str | None
    exception: str | None
    traceback: str | None
    executor: str | None


@dataclasses.dataclass(frozen=True)
class FlowInfo(_Record):
    """A registered flow."""

    _times = frozenset(("created_at", "updated_at"))

    flow_name: str
    latest_version: str
    version_count: int
    description: str | None
    tags: Mapping[str, str] | None
    created_at: datetime.datetime
    updated_at: datetime.datetime


class RunFields:
    """The fields of a run, as of the last response: ``refresh`` and ``wait`` update them."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = dict(raw)

    @property
    def id(self) -> str:
        return self.raw["run_id"]  # type: ignore[no-any-return]

    @property
    def slug(self) -> str:
        """The readable name of the run: three words and a number."""
        return self.raw["run_slug"]  # type: ignore[no-any-return]

    @property
    def status(self) -> str:
        """QUEUED, RUNNING, SUCCEEDED, FAILED, TIMED_OUT, CANCELLATION_REQUESTED or CANCELLED."""
        return self.raw["status"]  # type: ignore[no-any-return]

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def flow_name(self) -> str:
        return self.raw["flow_name"]  # type: ignore[no-any-return]

    @property
    def flow_version(self) -> str:
        return self.raw["flow_version"]  # type: ignore[no-any-return]

    @property
    def deployment(self) -> str | None:
        return self.raw.get("deployment")

    @property
    def environment(self) -> str:
        return self.raw["environment"]  # type: ignore[no-any-return]

    @property
    def parameters(self) -> Mapping[str, Any] | None:
        """The parameters, or None if the last response was a list or the start of the run."""
        return self.raw.get("parameters")

    @property
    def error_message(self) -> str | None:
        return self.raw.get("error_message")

    @property
    def reason(self) -> str | None:
        return self.raw.get("reason")

    @property
    def result(self) -> Any:
        """The return value of the flow, if it has one and the last response was the run's detail."""
        return self.raw.get("result")

    @property
    def created_at(self) -> datetime.datetime:
        return instant(self.raw["created_at"])  # type: ignore[return-value]

    @property
    def started_at(self) -> datetime.datetime | None:
        return instant(self.raw.get("started_at"))

    @property
    def ended_at(self) -> datetime.datetime | None:
        return instant(self.raw.get("ended_at"))

    @property
    def duration_ms(self) -> int | None:
        return self.raw.get("duration_ms")

    @property
    def reused_task_count(self) -> int | None:
        """Of a retry: the number of reused tasks and map instances."""
        return self.raw.get("reused_task_count")

    @property
    def task_runs(self) -> list[TaskRun]:
        """One record for each attempt; empty unless the last response was the run's detail."""
        return [TaskRun.of(r) for r in self.raw.get("task_runs") or ()]

    def task(self, name: str, index: int | None = None) -> TaskRun:
        """Return the last attempt of a task, or of an instance of a mapped task. Raises KeyError."""
        found = [r for r in self.task_runs if r.task_name == name and r.map_index == index]
        if not found:
            raise KeyError(name if index is None else f"{name}[{index}]")
        return max(found, key=lambda r: r.attempt)

    def _check(self) -> None:
        if self.ended and self.status != "SUCCEEDED":
            raise RunFailedError(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.slug} of {self.flow_name} {self.flow_version}: {self.status}>"
