"""What the service answers, as values. ``raw`` is always the answer as it came."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping
from typing import Any, TypeVar

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

    @classmethod
    def of(cls: type[_R], raw: Mapping[str, Any]) -> _R:
        """Return the record of an answer, whose further fields stay in raw."""
        values = {}
        for field in dataclasses.fields(cls):
            if field.name == "raw":
                continue
            value = raw.get(field.metadata.get("name", field.name))
            values[field.name] = instant(value) if field.metadata.get("time") and value else value
        return cls(raw=raw, **values)


def _time(name: str | None = None) -> Any:
    return dataclasses.field(metadata={"time": True, **({"name": name} if name else {})})


def _named(name: str) -> Any:
    return dataclasses.field(metadata={"name": name})


@dataclasses.dataclass(frozen=True)
class LogEvent(_Record):
    """A line of a run's log, or one that tells what became of a task or the run (``event_type``)."""

    time: datetime.datetime = _time("timestamp")
    message: str
    event_type: str
    level: str | None
    task: str | None = _named("task_name")
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

    task_name: str
    task_run_id: str
    map_index: int | None
    attempt: int
    status: str
    reason: str | None
    started_at: datetime.datetime | None = _time()
    ended_at: datetime.datetime | None = _time()
    duration_ms: int | None
    error_type: str | None
    error_message: str | None
    exception: str | None
    traceback: str | None
    executor: str | None


@dataclasses.dataclass(frozen=True)
class FlowInfo(_Record):
    """A registered flow."""

    flow_name: str
    latest_version: str
    version_count: int
    description: str | None
    tags: Mapping[str, str] | None
    created_at: datetime.datetime = _time()
    updated_at: datetime.datetime = _time()


class RunFields:
    """What is known of a run, as of the last answer about it: ``refresh`` and ``wait`` ask anew."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = dict(raw)

    @property
    def id(self) -> str:
        return self.raw["run_id"]  # type: ignore[no-any-return]

    @property
    def slug(self) -> str:
        """Three words and a number, which name the run to people."""
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
        """Of a run that was read alone; None where the answer does not tell."""
        return self.raw.get("parameters")

    @property
    def error_message(self) -> str | None:
        return self.raw.get("error_message")

    @property
    def reason(self) -> str | None:
        return self.raw.get("reason")

    @property
    def result(self) -> Any:
        """What the flow returned, where it returns something and the run was read alone."""
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
        """Of a retry: how many tasks and map instances it reuses."""
        return self.raw.get("reused_task_count")

    @property
    def task_runs(self) -> list[TaskRun]:
        """One for each attempt of each task or instance; empty until the run was read alone."""
        return [TaskRun.of(r) for r in self.raw.get("task_runs") or ()]

    def task(self, name: str, index: int | None = None) -> TaskRun:
        """Return the last attempt of a task, or of instance index of a mapped one; KeyError if there is none."""
        found = [r for r in self.task_runs if r.task_name == name and r.map_index == index]
        if not found:
            raise KeyError(name if index is None else f"{name}[{index}]")
        return max(found, key=lambda r: r.attempt)

    def _check(self) -> None:
        if self.ended and self.status != "SUCCEEDED":
            raise RunFailedError(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.slug} of {self.flow_name} {self.flow_version}: {self.status}>"
