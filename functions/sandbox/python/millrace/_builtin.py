"""The built-in task types for local runs, with the same outputs, errors and log lines as in the service."""

import json
import time

from . import _cel
from .errors import ExpressionError, MillraceError, TaskFailedError

MAX_WAIT = 31_622_400
_EXCERPT = 300  # characters of an answer in an error


class HttpError(MillraceError):
    """An http task did not get an expected response."""


def run(type, config, names, emit):
    """Return the output of a task of a built-in type; its config is already rendered. ``emit`` receives log events."""
    if type == "transform":
        return _cel.evaluate(config["expression"], names, "config.expression")
    if type == "wait":
        seconds = config.get("seconds")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= MAX_WAIT:
            raise ExpressionError(f"config.seconds must be a number from 0 to {MAX_WAIT}")
        time.sleep(seconds)
        return {"waited_seconds": seconds}
    if type == "http":
        return _http(config, emit)
    raise TaskFailedError(f"tasks of type {type!r} need the service")


def _http(config, emit):
    import http.client
    import urllib.error
    import urllib.parse
    import urllib.request

    method, url, expected = (config.get("method") or "GET").upper(), config.get("url"), config.get("expected_status")
    parts = urllib.parse.urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        raise HttpError("config.url is not an absolute http or https URL")
    headers = {"User-Agent": "millrace"}
    body = None
    if "json" in config:
        body = json.dumps(config["json"], ensure_ascii=False).encode()
        headers["Content-Type"] = "application/json"
    elif config.get("body") is not None:
        if not isinstance(config["body"], str):
            raise HttpError("config.body must be a string")
        body = config["body"].encode()
    for name, value in (config.get("headers") or {}).items():
        if value is not None:
            headers[name.title()] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    class Redirects(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, request, file, code, *rest):
            if expected is not None and _expected(expected, code):
                return None  # the answer is what the task wants
            return super().redirect_request(request, file, code, *rest)

    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    try:
        try:
            answer = urllib.request.build_opener(Redirects).open(request)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            data = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise HttpError(f"the call failed: {getattr(error, 'reason', error)}") from None
    text = data.decode("utf-8", "replace")
    told = f"{method} {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path} answered {answer.status}"
    emit("info", "http", f"{told}, {len(data)} bytes")
    if not _expected(expected, answer.status):
        raise HttpError(f"{told}: {text[:_EXCERPT]}{'…' if len(text) > _EXCERPT else ''}")
    received = {}
    for name, value in answer.headers.items():
        if name.lower() != "set-cookie":  # a credential of the session, not a result
            received[name.lower()] = f"{received[name.lower()]}, {value}" if name.lower() in received else value
    parsed = None
    if "json" in received.get("content-type", "").lower():
        try:
            parsed = json.loads(data)
        except ValueError:
            pass
    return {"status": answer.status, "headers": received, "body": text, "json": parsed}


def _expected(want, status):
    if want is None:
        return 200 <= status <= 299
    return any(_expected(one, status) for one in want) if isinstance(want, list) else want == status
