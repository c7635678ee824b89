"""Finds the server and the credential of a client.

The first source that names a server decides: the arguments; MILLRACE_URL with
MILLRACE_API_KEY and MILLRACE_ORG; .millrace/credentials.json in this folder or
one above; the context chosen by `millrace context use`. A credential is sent only
to the server of its own source.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import urllib.parse
from collections.abc import Mapping
from typing import Any

from .errors import NoServerError

CREDENTIALS = os.path.join(".millrace", "credentials.json")


@dataclasses.dataclass(frozen=True)
class Settings:
    """A server's URL without a slash at the end, the bearer token, and the workspace (X-Org-Id)."""

    url: str
    api_key: str | None = dataclasses.field(default=None, repr=False)
    org: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", _checked_url(self.url))
        for name, value in (("API key", self.api_key), ("workspace", self.org)):
            # http.client would show the value in its own complaint.
            if value is not None and not re.fullmatch(r"[!-~]+", value):
                raise NoServerError(f"the {name} has a character that cannot be sent, a line break for instance")


def find(
    url: str | None = None, api_key: str | None = None, org: str | None = None, context: str | None = None,
    environ: Mapping[str, str] = os.environ, directory: str | None = None,
) -> Settings:
    """Return the settings of the server to use, or raise NoServerError."""
    if url is not None and context is not None:
        raise NoServerError("give a url or a context, not both")
    named = environ.get("MILLRACE_URL") or None
    if context is not None:
        found, foreign = _context(environ, context), True
    elif given := url or named:
        given = _checked_url(given)
        # The key in the environment belongs to the URL beside it.
        foreign = named is not None and _checked_url(named) != given
        found = Settings(given)
        if not api_key and (foreign or not environ.get("MILLRACE_API_KEY")):
            found = next((s for s in _stored(environ, directory) if s.url == given), found)
    else:
        found, foreign = next(_stored(environ, directory), None), False
        if found is None:
            raise NoServerError(
                "no server is named: start one with `millrace serve` in this folder or above, "
                "set MILLRACE_URL and MILLRACE_API_KEY, or choose one with `millrace context use`"
            )
    if not foreign:
        api_key, org = api_key or environ.get("MILLRACE_API_KEY"), org or environ.get("MILLRACE_ORG")
    return dataclasses.replace(found, api_key=api_key or found.api_key, org=org or found.org)


def _stored(environ: Mapping[str, str], directory: str | None) -> Any:
    """Yield the settings of credentials.json and of the chosen context, if any."""
    folder = os.path.abspath(directory or os.getcwd())
    while True:
        path = os.path.join(folder, CREDENTIALS)
        if os.path.isfile(path):
            yield _of_record(path, _load(path))
            break
        if os.path.dirname(folder) == folder:
            break
        folder = os.path.dirname(folder)
    if os.path.isfile(_contexts_path(environ)):
        chosen = _context(environ, None)
        if chosen is not None:
            yield chosen


def _contexts_path(environ: Mapping[str, str]) -> str:
    home = os.path.expanduser("~")
    if sys.platform == "darwin":
        base = os.path.join(home, "Library", "Application Support")
    else:
        base = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return os.path.join(base, "millrace", "contexts.json")


def _context(environ: Mapping[str, str], name: str | None) -> Any:
    """Return a context by name, or the chosen one; None when none is chosen."""
    path = _contexts_path(environ)
    record = _load(path) if os.path.isfile(path) else {}
    contexts = record.get("contexts") or {}
    wanted = name or record.get("current")
    if wanted is None:
        return None
    if wanted not in contexts:
        known = ", ".join(sorted(contexts)) or "none"
        raise NoServerError(f"there is no context {wanted!r}; known: {known}")
    return _of_record(path, contexts[wanted])


def _load(path: str) -> dict[str, Any]:
    try:
        if hasattr(os, "geteuid") and os.stat(path).st_uid not in (os.geteuid(), 0):
            # Other users may write to a parent folder, such as /tmp.
            raise NoServerError(f"{path} belongs to another user: set MILLRACE_URL and MILLRACE_API_KEY if you trust it")
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
    except (OSError, ValueError) as error:
        raise NoServerError(f"{path} cannot be read: {error.strerror if isinstance(error, OSError) else 'it is no JSON'}") from None
    if not isinstance(record, dict):
        raise NoServerError(f"{path} is no JSON object")
    return record


def _of_record(path: str, record: Any) -> Settings:
    url = record.get("base_url") or record.get("url") if isinstance(record, dict) else None
    if not isinstance(url, str):
        raise NoServerError(f"{path} names no server")
    # The key in credentials.json is bound to its workspace and needs no header.
    return Settings(url, record.get("api_key") or None, record.get("org") or None)


def _checked_url(url: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        sound, parts = False, urllib.parse.urlsplit("")
    if parts.username is not None or parts.password is not None:
        raise NoServerError("the server's URL holds a user or a password: give the API key apart from it")
    if not sound or parts.query or parts.fragment:
        raise NoServerError("the server's URL is to be http://host:port or https://host, with a path if need be")
    return url.rstrip("/")
