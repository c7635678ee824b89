"""The client for asyncio.

Requests run in a thread pool over the transport of Client, so that proxies, TLS
and redirects have one implementation. A wait occupies no thread between its
requests. If a call is cancelled, its request completes in the background.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from . import _settings
from ._calls import Call, Calls, LogReader, Pause, Work
from ._deploy import Deployed, deploy
from ._records import FlowInfo, LogEvent, RunFields
from ._transport import Request, Transport

if TYPE_CHECKING:
    from ..flows import Flow

T = TypeVar("T")


class AsyncClient:
    """The methods of Client, with await. ``connections`` is the number of concurrent requests.

    Close it with ``aclose()`` or use it in ``async with``.
    """

    def __init__(
        self, url: str | None = None, api_key: str | None = None, *, org: str | None = None, context: str | None = None,
        timeout: float = 60, retries: int = 4, connections: int = 16,
    ) -> None:
        settings = _settings.find(url, api_key, org, context)
        self.url = settings.url
        self._transport = Transport(settings, timeout)
        self._calls = Calls(retries)
        self._threads = concurrent.futures.ThreadPoolExecutor(connections, "millrace-client")

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the client. Requests in progress complete in the background."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(
        self, name: str, parameters: Mapping[str, Any] | None = None, /, *, environment: str | None = None, tier: str | None = None,
        idempotency_key: str | None = None, **more: Any,
    ) -> AsyncRun:
        """As Client.run."""
        return self._run(await self._do(self._calls.start(name, {**(parameters or {}), **more}, environment, tier, idempotency_key)))

    async def get(self, run_id: str) -> AsyncRun:
        """As Client.get."""
        return self._run(await self._do(self._calls.run(run_id)))

    async def runs(
        self, *, flow: str | None = None, deployment: str | None = None, status: str | None = None, environment: str | None = None,
        since: datetime.datetime | datetime.timedelta | str | None = None, until: datetime.datetime | str | None = None,
        trigger_source: str | None = None, triggered_by: str | None = None, limit: int | None = 100,
    ) -> list[AsyncRun]:
        """As Client.runs."""
        query = {
            "flow_name": flow, "deployment": deployment, "status": status, "environment": environment, "since": since, "until": until,
            "trigger_source": trigger_source, "triggered_by": triggered_by, "limit": limit,
        }
        return [self._run(raw) for raw in await self._do(self._calls.runs(query))]

    async def flows(self, *, environment: str | None = None) -> list[FlowInfo]:
        """As Client.flows."""
        return [FlowInfo.of(raw) for raw in await self._do(self._calls.flows(environment))]

    async def deploy(
        self, flow: Flow, directory: str, *, name: str | None = None, version: str | None = None, environment: str | None = None,
        tier: str | None = None, platform: str | None = None, python_version: str | None = None,
    ) -> Deployed:
        """As Client.deploy."""
        return await self._do(deploy(self._calls, flow, directory, name, version, environment, tier, platform, python_version))

    async def request(self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """As Client.request."""
        return await self._do(self._calls.json(method, path, body, query))

    def _run(self, raw: Mapping[str, Any]) -> AsyncRun:
        return AsyncRun(self, raw)

    async def _do(self, call: Call[T]) -> T:
        try:
            step = next(call)
            while True:
                try:
                    answer = await self._carry_out(step)
                except Exception as error:
                    step = call.throw(error)
                else:
                    step = call.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    async def _carry_out(self, step: Request | Pause | Work) -> Any:
        if isinstance(step, Pause):
            return await asyncio.sleep(step.seconds)
        loop = asyncio.get_running_loop()
        if isinstance(step, Work):
            return await loop.run_in_executor(self._threads, step.function)
        return await loop.run_in_executor(self._threads, self._transport.send, step)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.url}>"


class AsyncRun(RunFields):
    """As Run, with await."""

    def __init__(self, client: AsyncClient, raw: Mapping[str, Any]) -> None:
        super().__init__(raw)
        self._client = client

    async def refresh(self) -> AsyncRun:
        """As Run.refresh."""
        self.raw = await self._client._do(self._client._calls.run(self.id))
        return self

    async def wait(self, timeout: float | None = None) -> AsyncRun:
        """As Run.wait."""
        self.raw = await self._client._do(self._client._calls.wait(self.id, timeout))
        return self

    def raise_for_status(self) -> AsyncRun:
        """As Run.raise_for_status."""
        self._check()
        return self

    async def logs(
        self, *, follow: bool = False, task: str | None = None, level: str | None = None,
        since: datetime.datetime | datetime.timedelta | str | None = None,
    ) -> AsyncIterator[LogEvent]:
        """As Run.logs, with async for."""
        reader = LogReader(follow)
        filters = {"task_name": task, "level": level, "since": since}
        while not reader.ended:
            page = await self._client._do(self._client._calls.log_page(self.id, reader, filters))
            for event in reader.feed(page):
                yield event
            if not reader.ended and reader.pause:
                await asyncio.sleep(reader.pause)

    async def output(self, task: str, index: int | None = None, *, attempt: int | None = None) -> Any:
        """As Run.output."""
        return await self._client._do(self._client._calls.output(self.id, task, index, attempt))

    async def retry(self, *, failed: bool = False, latest: bool = False) -> AsyncRun:
        """As Run.retry."""
        return self._client._run(await self._client._do(self._client._calls.retry(self.id, failed, latest)))

    async def cancel(self) -> AsyncRun:
        """As Run.cancel."""
        self.raw.update(await self._client._do(self._client._calls.cancel(self.id)))
        return self
