"""What the client raises. No message holds a credential or a presigned URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import MillraceError

if TYPE_CHECKING:
    from ._records import RunFields


class NoServerError(MillraceError):
    """No server is named, or what names it cannot be used."""


class ConnectionFailedError(MillraceError, ConnectionError):
    """There was no whole answer: the connection failed, was cut, or took too long.

    ``unsent`` is true when the request certainly never reached the server.
    """

    def __init__(self, message: str, unsent: bool = False) -> None:
        super().__init__(message)
        self.unsent = unsent


class APIError(MillraceError):
    """The service refused a request.

    ``status`` is the HTTP status, ``detail`` the service's reason, ``errors`` the
    entries {type, loc, msg, input} of a body or parameter that is invalid,
    ``request_id`` what the service's logs know the request by (or None), and
    ``retry_after`` the seconds after which to try again (or None).
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
    """400, 413 or 422: what was sent is invalid; ``errors`` tells where."""


class NotSignedInError(APIError):
    """401: there is no credential, or it is not valid any more."""


class NotAllowedError(APIError):
    """403: the credential lacks the permission."""


class NotFoundError(APIError):
    """404: there is no such thing in this workspace."""


class ConflictError(APIError):
    """409: the thing is in a state that does not allow it."""


class RateLimitedError(APIError):
    """429: a limit is reached; ``retry_after`` tells when to come back."""


class ServerError(APIError):
    """5xx: the service failed."""


APIError._BY_STATUS = {
    400: InvalidRequestError, 401: NotSignedInError, 403: NotAllowedError, 404: NotFoundError, 409: ConflictError,
    413: InvalidRequestError, 422: InvalidRequestError, 429: RateLimitedError,
}


class RunFailedError(MillraceError):
    """A run ended otherwise than SUCCEEDED; ``run`` is that run."""

    def __init__(self, run: RunFields) -> None:
        why = run.error_message or run.reason
        super().__init__(f"run {run.slug} of {run.flow_name} is {run.status}" + (f": {why}" if why else ""))
        self.run = run


class WaitTimeoutError(MillraceError, TimeoutError):
    """The run had not ended within the timeout of wait; it goes on."""
