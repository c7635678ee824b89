"""The synchronous client."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from . import _settings
from ._calls import Call, Calls, LogReader, Pause, Work
from ._deploy import Deployed, deploy
from ._records import FlowInfo, LogEvent, RunFields
from ._transport import Request, Transport

if TYPE_CHECKING:
    from ..flows import Flow

T = TypeVar("T")


class Client:
    """A client of one server, with one credential; it may be used from several threads.

    Without arguments it finds the server as the command line does: MILLRACE_URL
    and MILLRACE_API_KEY, .millrace/credentials.json in this folder or one above, or
    the context chosen with `millrace context use`. ``timeout`` is the time in
    seconds to wait for data from the server, ``retries`` the number of retries of
    a request where that is safe. Raises NoServerError if no server is configured.
    Every method may raise APIError (the service refused the request) and
    ConnectionFailedError (there was no complete response).
    """

    def __init__(
        self, url: str | None = None, api_key: str | None = None, *, org: str | None = None, context: str | None = None,
        timeout: float = 60, retries: int = 4,
    ) -> None:
        settings = _settings.find(url, api_key, org, context)
        self.url = settings.url
        self._transport = Transport(settings, timeout)
        self._calls = Calls(retries)

    def run(
        self, name: str, parameters: Mapping[str, Any] | None = None, /, *, environment: str | None = None, tier: str | None = None,
        idempotency_key: str | None = None, **more: Any,
    ) -> Run:
        """Start a run of a deployment, or of a flow version, ``flow@version``.

        Parameters are keyword arguments, or a mapping if a name clashes with an
        option. Retries by the client never start a second run. With an
        idempotency_key, neither does a second call within 24 hours.
        """
        return self._run(self._do(self._calls.start(name, {**(parameters or {}), **more}, environment, tier, idempotency_key)))

    def get(self, run_id: str) -> Run:
        """Read a run by its id or slug; NotFoundError."""
        return self._run(self._do(self._calls.run(run_id)))

    def runs(
        self, *, flow: str | None = None, deployment: str | None = None, status: str | None = None, environment: str | None = None,
        since: datetime.datetime | datetime.timedelta | str | None = None, until: datetime.datetime | str | None = None,
        trigger_source: str | None = None, triggered_by: str | None = None, limit: int | None = 100,
    ) -> list[Run]:
        """List runs, newest first. limit=None lists all of them. A timedelta is relative to now."""
        query = {
            "flow_name": flow, "deployment": deployment, "status": status, "environment": environment, "since": since, "until": until,
            "trigger_source": trigger_source, "triggered_by": triggered_by, "limit": limit,
        }
        return [self._run(raw) for raw in self._do(self._calls.runs(query))]

    def flows(self, *, environment: str | None = None) -> list[FlowInfo]:
        """List the registered flows, or those that are deployed to an environment."""
        return [FlowInfo.of(raw) for raw in self._do(self._calls.flows(environment))]

    def deploy(
        self, flow: Flow, directory: str, *, name: str | None = None, version: str | None = None, environment: str | None = None,
        tier: str | None = None, platform: str | None = None, python_version: str | None = None,
    ) -> Deployed:
        """Upload the code in a directory, register the flow's version and deploy it.

        The name defaults to that of the flow, the version to dev- and a hash of the
        code and the flow_spec, the tier to medium. The packages in requirements.txt
        of the directory are included, for the given platform (linux/arm64, …) and
        Python version (3.13, …), by default those of the server.
        """
        return self._do(deploy(self._calls, flow, directory, name, version, environment, tier, platform, python_version))

    def request(self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """Call any operation of the API and return the JSON it answers."""
        return self._do(self._calls.json(method, path, body, query))

    def _run(self, raw: Mapping[str, Any]) -> Run:
        return Run(self, raw)

    def _do(self, call: Call[T]) -> T:
        try:
            step = next(call)
            while True:
                try:
                    answer = self._carry_out(step)
                except Exception as error:
                    step = call.throw(error)
                else:
                    step = call.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    def _carry_out(self, step: Request | Pause | Work) -> Any:
        if isinstance(step, Pause):
            return time.sleep(step.seconds)
        if isinstance(step, Work):
            return step.function()
        return self._transport.send(step)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.url}>"


class Run(RunFields):
    """A run. Its fields are those of the last response; refresh and wait update them."""

    def __init__(self, client: Client, raw: Mapping[str, Any]) -> None:
        super().__init__(raw)
        self._client = client

    def refresh(self) -> Run:
        """Read the run again."""
        self.raw = self._client._do(self._client._calls.run(self.id))
        return self

    def wait(self, timeout: float | None = None) -> Run:
        """Wait until the run has ended, with any status. Raises WaitTimeoutError after timeout seconds.

        A server that does not answer meanwhile, because it restarts, is waited for:
        until then, or without a timeout for five minutes.
        """
        self.raw = self._client._do(self._client._calls.wait(self.id, timeout))
        return self

    def raise_for_status(self) -> Run:
        """Raise RunFailedError if the run has ended with another status than SUCCEEDED."""
        self._check()
        return self

    def logs(
        self, *, follow: bool = False, task: str | None = None, level: str | None = None,
        since: datetime.datetime | datetime.timedelta | str | None = None,
    ) -> Iterator[LogEvent]:
        """Yield the log events so far, in order; with follow, until the run has ended, also if the server restarts meanwhile."""
        reader = LogReader(follow)
        filters = {"task_name": task, "level": level, "since": since}
        while not reader.ended:
            yield from reader.feed(self._client._do(self._client._calls.log_page(self.id, reader, filters)))
            if not reader.ended and reader.pause:
                time.sleep(reader.pause)

    def output(self, task: str, index: int | None = None, *, attempt: int | None = None) -> Any:
        """Return the output of a task, of any size; for a mapped task without index, the list of outputs.

        Raises NotFoundError if there is none.
        """
        return self._client._do(self._client._calls.output(self.id, task, index, attempt))

    def retry(self, *, failed: bool = False, latest: bool = False) -> Run:
        """Start the run again and return the new run.

        failed reuses the tasks that succeeded, latest runs the newest code of the
        flow. If the connection breaks, the new run may exist: the client does not
        send this request again.
        """
        return self._client._run(self._client._do(self._client._calls.retry(self.id, failed, latest)))

    def cancel(self) -> Run:
        """Request the cancellation of the run. Use wait to know when it has ended."""
        self.raw.update(self._client._do(self._client._calls.cancel(self.id)))
        return self
