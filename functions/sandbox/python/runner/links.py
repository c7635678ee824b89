"""Transfers files of tasks by presigned URLs, which the internal route issues for each file."""

import http.client
import time
import urllib.error
import urllib.request

_TIMEOUT_SECS = 20  # of each step of a request to the object store
_PATIENCE_SECS = 60  # for which a request to it is repeated


class FileError(Exception):
    """A file cannot be saved or opened. The message is for the task's author and does not contain the URL."""


class BusyError(Exception):
    """A file has to be sent again after so many seconds."""

    def __init__(self, seconds):
        super().__init__(seconds)
        self.seconds = seconds


class TransferError(Exception):
    """The download of a file was incomplete."""


class Links:
    """The files of one attempt; ask sends a request to the route and returns the response."""

    def __init__(self, ask):
        self._ask = ask
        self._saved = 0
        self._delays = delays()  # of the file that is saved next, or again

    def save(self, chunks, size):
        """Store a file of size bytes and return its reference; on a FileError or BusyError chunks may be left."""
        link = self._ask({"save_file": self._saved})
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        try:
            request = urllib.request.Request(link["url"], data=chunks, headers=headers, method="PUT")
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECS):
                pass
        except (OSError, http.client.HTTPException) as error:
            said = _said(error)
            if passing(error) and (delay := next(self._delays, None)) is not None:
                raise BusyError(delay) from None
            self._next()
            raise FileError(said) from None
        self._next()
        return link["reference"]

    def _next(self):
        self._saved, self._delays = self._saved + 1, delays()

    def open(self, reference):
        """Return the response with a file, and its size."""
        link = self._ask({"open_file": reference})
        try:
            source = repeat(lambda: urllib.request.urlopen(link["url"], timeout=_TIMEOUT_SECS))
        except (OSError, http.client.HTTPException) as error:
            raise FileError(_said(error)) from None
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


def delays():
    """Yield how many seconds to wait before each repetition of a request, growing, until the patience is used up."""
    delay, left = 0.2, _PATIENCE_SECS
    while delay <= left:
        yield delay
        left -= delay
        delay = min(2 * delay, 5)


def repeat(request):
    """Return what a request to the object store returns; repeat it as long as its failure may pass."""
    waits = delays()
    while True:
        try:
            return request()
        except (OSError, http.client.HTTPException) as error:
            if not passing(error) or (delay := next(waits, None)) is None:
                raise
            if isinstance(error, urllib.error.HTTPError):
                error.close()
        time.sleep(delay)


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
