"""One HTTP request, by urllib: TLS, proxies of the environment and redirects.

Each request has its own connection. That costs a handshake, but a request never
fails because the server has just closed an idle connection, which would leave
open whether the request was executed.
"""

from __future__ import annotations

import dataclasses
import email.message
import http.client
import ipaddress
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from .._version import __version__
from ._settings import Settings
from .errors import ConnectionFailedError

MAX_REDIRECTS = 5


@dataclasses.dataclass(frozen=True)
class Request:
    """A request to the API, or, with an absolute url, to the object store, without credentials.

    ``repeatable`` requests are idempotent.
    """

    method: str
    path: str
    query: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    url: str | None = dataclasses.field(default=None, repr=False)

    @property
    def repeatable(self) -> bool:
        return self.method in ("GET", "PUT", "DELETE") or "Idempotency-Key" in self.headers

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclasses.dataclass(frozen=True)
class Response:
    """A response with any status."""

    status: int
    reason: str
    headers: email.message.Message
    body: bytes


class Transport:
    """Sends requests to one server. It is safe for use by several threads."""

    def __init__(self, settings: Settings, timeout: float) -> None:
        self._settings, self._timeout = settings, timeout
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            _Proxies(), urllib.request.UnknownHandler(), urllib.request.HTTPHandler(), urllib.request.HTTPSHandler(),
            urllib.request.HTTPDefaultErrorHandler(), _Redirects(), urllib.request.HTTPErrorProcessor(),
        ):
            self._opener.add_handler(handler)

    def send(self, request: Request) -> Response:
        """Send a request and read the whole response, or raise ConnectionFailedError."""
        url = request.url or self._settings.url + request.path
        if request.query:
            url += "?" + urllib.parse.urlencode(request.query)
        prepared = urllib.request.Request(url, data=request.body, method=request.method)
        prepared.add_header("User-Agent", "millrace-python/" + __version__)
        prepared.add_header("Accept", "application/json")
        for name, value in self._headers(request).items():
            prepared.add_unredirected_header(name, value)  # never sent to the target of a redirect
        where = urllib.parse.urlsplit(url)
        try:
            with self._opener.open(prepared, timeout=self._timeout) as answer:
                return Response(answer.status, answer.reason, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            try:
                with error:
                    return Response(error.code, str(error.reason), error.headers, error.read())
            except (OSError, http.client.HTTPException) as cut:
                raise _failed(request, where, cut) from None
        except urllib.error.URLError as error:
            raise _failed(request, where, error.reason) from None
        except (OSError, http.client.HTTPException) as error:
            raise _failed(request, where, error) from None

    def _headers(self, request: Request) -> dict[str, str]:
        headers = dict(request.headers)
        if request.url is None:
            if request.body is not None:
                headers["Content-Type"] = "application/json"
            if self._settings.api_key:
                headers["Authorization"] = "Bearer " + self._settings.api_key
            if self._settings.org:
                headers["X-Org-Id"] = self._settings.org
        elif request.body is not None:
            headers["Content-Type"] = "application/octet-stream"
        return headers


def _failed(request: Request, where: urllib.parse.SplitResult, cause: Any) -> ConnectionFailedError:
    unsent = isinstance(cause, (ConnectionRefusedError, socket.gaierror))
    if isinstance(cause, http.client.IncompleteRead):
        why = f"the answer was cut off after {len(cause.partial)} bytes"
    elif isinstance(cause, TimeoutError):
        why = "no answer in time"
    elif isinstance(cause, http.client.HTTPException) and not isinstance(cause, ConnectionError):
        why = type(cause).__name__
    else:
        why = str(cause) or type(cause).__name__
    # Without path and query: that of a presigned URL is a credential.
    server = f"{where.scheme}://{where.hostname}" + (f":{where.port}" if where.port else "")
    return ConnectionFailedError(f"{request}: {server}: {why}", unsent)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects of GET requests, but never from https to http."""

    max_redirections = MAX_REDIRECTS

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        target = urllib.parse.urlsplit(newurl)
        if req.get_method() != "GET" or target.scheme not in ("http", "https"):
            return None
        if req.type == "https" and target.scheme != "https":
            raise urllib.error.URLError("a redirect leads from https to http")
        return urllib.request.Request(newurl, headers=dict(req.headers))


class _Proxies(urllib.request.ProxyHandler):
    """The proxies of the environment, but none for loopback addresses."""

    def proxy_open(self, req: Any, proxy: str, type: str) -> Any:
        if is_loopback(urllib.parse.urlsplit(req.full_url).hostname or ""):
            return None
        return super().proxy_open(req, proxy, type)  # type: ignore[misc]


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
