"""The exceptions of the client. No message contains a credential or a presigned URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import MillraceError

if TYPE_CHECKING:
    from ._records import RunFields


class NoServerError(MillraceError):
    """No server is configured, or its configuration is invalid."""


class ConnectionFailedError(MillraceError, ConnectionError):
    """There was no complete response: the connection failed, broke or timed out.

    ``unsent`` is true if the request certainly did not reach the server.
    """

    def __init__(self, message: str, unsent: bool = False) -> None:
        super().__init__(message)
        self.unsent = unsent


class APIError(MillraceError):
    """The service refused a request.

    ``status`` is the HTTP status, ``detail`` the reason, ``errors`` the validation
    errors {type, loc, msg, input}, ``request_id`` the id of the request in the
    service's logs or None, and ``retry_after`` the seconds to wait before the next
    attempt or None.
    """

    def __init__(
        self, request: str, status: int, detail: str, request_id: str | None = None,
        errors: list[dict[str, Any]] | None = None, retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{request}: {status}: {detail}" + (f" (request {request_id})" if request_id else ""))
        self.request, self.status, self.detail, self.request_id = request, status, detail, request_id
        self.errors = errors or []
        self.retry_after = retry_after

    _BY_STATUS: ClassVar[dict[int, type[APIError]]] = {}

    @classmethod
    def of(cls, status: int) -> type[APIError]:
        """Return the class for a status."""
        if status >= 500:
            return ServerError
        return cls._BY_STATUS.get(status, cls)


class InvalidRequestError(APIError):
    """400, 413 or 422: the request is invalid; see ``errors``."""


class NotSignedInError(APIError):
    """401: the credential is missing, invalid or expired."""


class NotAllowedError(APIError):
    """403: the credential lacks the permission."""


class NotFoundError(APIError):
    """404: the resource does not exist in this workspace."""


class ConflictError(APIError):
    """409: the state of the resource does not allow the request."""


class RateLimitedError(APIError):
    """429: a rate limit or quota is exceeded; see ``retry_after``."""


class ServerError(APIError):
    """5xx: the service failed."""


APIError._BY_STATUS = {
    400: InvalidRequestError, 401: NotSignedInError, 403: NotAllowedError, 404: NotFoundError, 409: ConflictError,
    413: InvalidRequestError, 422: InvalidRequestError, 429: RateLimitedError,
}


class RunFailedError(MillraceError):
    """A run ended with another status than SUCCEEDED. ``run`` is the run."""

    def __init__(self, run: RunFields) -> None:
        why = run.error_message or run.reason
        super().__init__(f"run {run.slug} of {run.flow_name} is {run.status}" + (f": {why}" if why else ""))
        self.run = run


class WaitTimeoutError(MillraceError, TimeoutError):
    """The run did not end within the timeout of wait. It continues."""
