"""A client of the service: of a deployment, or of the embedded server.

    from millrace import Client

    run = Client().run("daily", day="2026-01-31")
    for event in run.logs(follow=True):
        print(event.time, event.task, event.message)
    run.wait().raise_for_status()
    report = run.output("report")

AsyncClient is the same with await. Neither needs anything but the standard
library.
"""

from ._async import AsyncClient, AsyncRun
from ._records import FlowInfo, LogEvent, TaskRun
from ._sync import Client, Run
from .errors import (
    APIError,
    ConflictError,
    ConnectionFailedError,
    InvalidRequestError,
    NoServerError,
    NotAllowedError,
    NotFoundError,
    NotSignedInError,
    RateLimitedError,
    RunFailedError,
    ServerError,
    WaitTimeoutError,
)

__all__ = [
    "APIError", "AsyncClient", "AsyncRun", "Client", "ConflictError", "ConnectionFailedError", "FlowInfo", "InvalidRequestError", "LogEvent",
    "NoServerError", "NotAllowedError", "NotFoundError", "NotSignedInError", "RateLimitedError", "Run", "RunFailedError", "ServerError",
    "TaskRun", "WaitTimeoutError",
]
