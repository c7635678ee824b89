"""The built-in types of tasks, for local runs."""

import json
import time

from . import _cel
from .errors import TaskFailedError


def run(type, config, names):
    """Return the output of a task of a built-in type; its config is rendered already."""
    if type == "transform":
        return _cel.evaluate(config["expression"], names)
    if type == "wait":
        time.sleep(float(config["seconds"]))
        return None
    if type == "http":
        return _http(config)
    raise TaskFailedError(f"tasks of type {type!r} need the service")


def _http(config):
    import urllib.error
    import urllib.request

    url = str(config.get("url", ""))
    if not url.startswith(("http://", "https://")):
        raise TaskFailedError(f"{url!r} is no HTTP address")
    headers = {str(k): str(v) for k, v in (config.get("headers") or {}).items()}
    body = None
    if "json" in config:
        body = json.dumps(config["json"], ensure_ascii=False).encode()
        headers.setdefault("Content-Type", "application/json")
    elif config.get("body") is not None:
        body = str(config["body"]).encode()
    request = urllib.request.Request(url, data=body, method=config.get("method", "GET").upper(), headers=headers)
    try:
        try:
            answer = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            text = answer.read().decode("utf-8", "replace")
            status, received = answer.status, {k.lower(): v for k, v in answer.headers.items()}
    except OSError as error:
        raise TaskFailedError(f"the request failed: {getattr(error, 'reason', error)}") from None
    expected = config.get("expected_status")
    expected = expected if isinstance(expected, list) or expected is None else [expected]
    if status not in expected if expected is not None else not 200 <= status < 300:
        raise TaskFailedError(f"the answer's status is {status}")
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    return {"status": status, "headers": received, "body": text, "json": parsed}
