"""The operations of the API, without input or output.

Each is a generator of steps. It yields a Request and receives the Response, a
Pause and receives None after it, or Work and receives its result. An exception
of a step is thrown into the generator. Client and AsyncClient differ only in how
they execute the steps.
"""

from __future__ import annotations

import dataclasses
import datetime
import email.utils
import json
import random
import re
import time
import urllib.parse
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, TypeVar

from .. import _values
from ._records import ENDED, LogEvent
from ._transport import Request, Response
from .errors import APIError, ConnectionFailedError, WaitTimeoutError

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Pause:
    """A delay in seconds before the next step."""

    seconds: float


@dataclasses.dataclass(frozen=True)
class Work:
    """A slow function that makes no request."""

    function: Callable[[], Any]


Call = Generator["Request | Pause | Work", Any, T]

MAX_PAUSE = 60.0  # the longest Retry-After to wait for; rate limits are per minute
PATIENCE = 300.0  # seconds that a run is watched while its server does not answer, such as a restart
_BUSY = (502, 503, 504)


def exchange(request: Request, retries: int) -> Call[Response]:
    """Send a request, retry it where that is safe, and return the response.

    A request that certainly changed nothing (no connection, or 429) is always
    retried. After a broken connection, 502, 503 or 504 only idempotent requests
    are: reads, and those with an Idempotency-Key. Retry-After is respected. Raises
    APIError for a status of 300 or more, and ConnectionFailedError.
    """
    for attempt in range(retries + 1):
        pause = min(5.0, 0.2 * 2**attempt) * random.uniform(0.5, 1)
        try:
            response: Response = yield request
        except ConnectionFailedError as error:
            if attempt == retries or not (error.unsent or request.repeatable):
                raise
        else:
            if response.status < 300:
                return response
            refused = _error(request, response)
            # After a broken connection our first request may still be in progress.
            mine = response.status == 409 and attempt > 0 and "Idempotency-Key" in request.headers
            again = response.status == 429 or mine or response.status in _BUSY and request.repeatable
            if refused.retry_after is not None:
                pause = max(pause, refused.retry_after)
            if attempt == retries or not again or pause > MAX_PAUSE:
                raise refused
        yield Pause(pause)
    raise AssertionError("unreachable")


def _error(request: Request, response: Response) -> APIError:
    detail: Any = None
    if request.url is None:
        try:
            detail = json.loads(response.body)["detail"]
        except (ValueError, KeyError, TypeError):
            pass  # not from the API: the text of a proxy or object store may contain the URL
    errors = [e for e in detail if isinstance(e, dict)] if isinstance(detail, list) else []
    if errors:
        detail = "; ".join(f"{'.'.join(map(str, e.get('loc', ())))}: {e.get('msg', '')}" for e in errors)
    return APIError.of(response.status)(
        str(request), response.status, str(detail or response.reason or "no reason given"),
        response.headers.get("X-Request-Id"), errors, _retry_after(response.headers.get("Retry-After")),
    )


def _retry_after(text: str | None) -> float | None:
    if text is None:
        return None
    if text.strip().isdecimal():
        return float(text)
    try:
        when = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.timezone.utc)
    return max(0.0, when.timestamp() - time.time())


class Calls:
    """The operations. retries is the number of retries of one request."""

    def __init__(self, retries: int) -> None:
        self.retries = retries

    def json(
        self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None,
    ) -> Call[Any]:
        """Return the JSON that an operation answers."""
        data = None if body is None else _values.encode(body, "the request")
        known = {k: _text(v) for k, v in (query or {}).items() if v is not None}
        response = yield from exchange(Request(method, path, known, data, headers or {}), self.retries)
        return json.loads(response.body) if response.body.strip() else None

    def start(self, name: str, parameters: Mapping[str, Any], environment: str | None, tier: str | None, key: str | None) -> Call[dict[str, Any]]:
        """Start a run of a deployment, or of flow@version."""
        flow, at, version = name.partition("@")
        body: dict[str, Any] = {"flow_name": flow, "flow_version": version} if at else {"deployment": name}
        body["parameters"] = dict(parameters)
        if environment is not None:
            body["environment"] = environment
        if tier is not None:
            body["execution_mode"] = tier
        return (yield from self.json("POST", "/runs", body, headers={"Idempotency-Key": key or str(uuid.uuid4())}))

    def run(self, run_id: str) -> Call[dict[str, Any]]:
        return (yield from self.json("GET", _run(run_id)))

    def runs(self, query: Mapping[str, Any]) -> Call[list[dict[str, Any]]]:
        return (yield from self.json("GET", "/runs", query=query))["items"]  # type: ignore[no-any-return]

    def flows(self, environment: str | None) -> Call[list[dict[str, Any]]]:
        found: list[dict[str, Any]] = []
        token = None
        while True:
            page = yield from self.json("GET", "/flows", query={"environment": environment, "next_token": token})
            found += page["items"]
            token = page.get("next_token")
            if not token:
                return found

    def wait(self, run_id: str, timeout: float | None) -> Call[dict[str, Any]]:
        """Read a run until it has ended; WaitTimeoutError past timeout seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.1
        while True:
            detail = yield from self._watched(lambda: self.run(run_id), deadline)
            if detail["status"] in ENDED:
                return detail
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise WaitTimeoutError(f"run {detail['run_slug']} is {detail['status']} after {timeout:g} s; it goes on")
            yield Pause(pause if left is None else min(pause, left))
            pause = min(3.0, pause * 1.3)

    def _watched(self, read: Callable[[], Call[T]], deadline: float | None) -> Call[T]:
        """Repeat a read while the server does not answer or is busy: up to the deadline, or else for PATIENCE seconds."""
        waited, pause = 0.0, 1.0
        while True:
            try:
                return (yield from read())
            except (ConnectionFailedError, APIError) as error:
                passes = isinstance(error, ConnectionFailedError) or error.status == 429 or error.status in _BUSY
                over = waited >= PATIENCE if deadline is None else time.monotonic() >= deadline
                if not passes or over or not self.retries:
                    raise
            yield Pause(pause if deadline is None else max(0.0, min(pause, deadline - time.monotonic())))
            waited, pause = waited + pause, min(10.0, pause * 1.5)

    def retry(self, run_id: str, failed: bool, latest: bool) -> Call[dict[str, Any]]:
        if latest and not failed:
            raise ValueError("latest=True takes the newest code for what failed: give failed=True with it")
        path = _run(run_id) + ("/retry-from-failed" if failed else "/retry")
        return (yield from self.json("POST", path, query={"flow_version": "latest" if latest else None}))

    def cancel(self, run_id: str) -> Call[dict[str, Any]]:
        return (yield from self.json("POST", _run(run_id) + "/cancel"))

    def output(self, run_id: str, task: str, index: int | None, attempt: int | None) -> Call[Any]:
        """Return the output of a task. Large outputs are read from the object store."""
        path = f"{_run(run_id)}/tasks/{urllib.parse.quote(task, safe='')}/output"
        return (yield from self.json("GET", path, query={"map_index": index, "attempt": attempt}))

    def log_page(self, run_id: str, reader: LogReader, filters: Mapping[str, Any]) -> Call[dict[str, Any]]:
        """Return the reader's next page of a log."""
        def read() -> Call[dict[str, Any]]:
            return self.json("GET", _run(run_id) + "/logs", query={**filters, "next_token": reader.token})

        return (yield from (self._watched(read, None) if reader.follow else read()))


class LogReader:
    """The state of reading a log. feed takes a page and returns its events."""

    def __init__(self, follow: bool) -> None:
        self.token: str | None = None
        self.ended = False
        self.pause = 0.0
        self.follow = follow

    def feed(self, page: Mapping[str, Any]) -> Iterator[LogEvent]:
        self.token = page.get("next_token")
        empty = not page["events"]
        # The log of an active run has no last page: an empty page means no more events yet.
        self.ended = self.token is None or empty and not self.follow and page["source"] == "live"
        waits = empty and page["source"] == "live"
        self.pause = min(1.0, max(0.1, self.pause * 1.5)) if waits else 0.0
        return map(LogEvent.of, page["events"])


def _run(run_id: str) -> str:
    return "/runs/" + urllib.parse.quote(run_id, safe="")


def _text(value: Any) -> str:
    if isinstance(value, datetime.timedelta):
        value = datetime.datetime.now(datetime.timezone.utc) - value
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(value)
