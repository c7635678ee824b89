"""Transfers files of tasks by presigned URLs, which the internal route issues for each file."""

import http.client
import time
import urllib.error
import urllib.request

_TIMEOUT_SECS = 20  # of each step of a request to the object store


class FileError(Exception):
    """A file cannot be saved or opened. The message is for the task's author and does not contain the URL."""


class TransferError(Exception):
    """The download of a file was incomplete."""


class Links:
    """The files of one attempt; ask sends a request to the route and returns the response."""

    def __init__(self, ask):
        self._ask = ask
        self._saved = 0

    def save(self, chunks, size):
        """Store a file of size bytes and return its reference; on a FileError chunks may be left."""
        link = self._ask({"save_file": self._saved})
        self._saved += 1
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        try:
            request = urllib.request.Request(link["url"], data=chunks, headers=headers, method="PUT")
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECS):
                return link["reference"]
        except (OSError, http.client.HTTPException) as error:
            raise FileError(_said(error)) from None

    def open(self, reference):
        """Return the response with a file, and its size."""
        link = self._ask({"open_file": reference})
        for delay in (0.2, 0.5, 1, None):
            try:
                source = urllib.request.urlopen(link["url"], timeout=_TIMEOUT_SECS)
                break
            except (OSError, http.client.HTTPException) as error:
                if delay is None or not passing(error):
                    raise FileError(_said(error)) from None
                time.sleep(delay)
        if source.length is None:
            source.close()
            raise FileError("the object store did not tell its size")
        return source, source.length


def read(source, most):
    """Return the next bytes of a response, at least one."""
    try:
        data = source.read1(most)
    except (OSError, http.client.HTTPException) as error:
        raise TransferError(f"a file could not be fetched: {type(error).__name__}") from None
    if not data:
        raise TransferError("a file could not be fetched: it broke off")
    return data


def passing(error):
    """Return whether a request to the object store that failed with this error may succeed later: not after a 4xx error or an error of the local disk."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500 or error.code in (408, 429)
    return isinstance(error, (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError))


def _said(error):
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"the object store answered {error.code}"
    return f"the object store did not answer: {type(error).__name__}"
