"""The Lambda transport: gets an attempt's request by its token and posts the answer.

The event is {"token"}: the bearer token of an attempt for the internal routes below
the address in MILLRACE_ATTEMPTS_URL. Nothing uses what the function returns.

    /start     {"runner"} begins the attempt. The answer is {"request"}: a request of
               core.Executor, and the artifact as {"hash", "url"}: the identity of the
               code, and a presigned GET of it. 409: the attempt is over or another
               runner has it, so nothing must run.
    /logs      {"runner", "renew", "events": [{"timestamp", "level", "logger", "message",
               "sequence", "fields"}]} every 5 s, with the lines since the last post,
               secrets masked, and earlier if there are many. renew, in every second one,
               renews the attempt's lease. {"cancelled": true} in the answer ends the task.
    /complete  {"runner", "events", "answer", "remaining_secs"} ends the attempt, with the
               last lines. Answered with {"next": {"token", "request"}} if the runner has
               begun the run's next attempt thereby, which it makes as if it had started it:
               for the time that its function has left, it saves other invocations.

runner is the id of this invocation: of two invocations with one token, only one begins.
The answer is {"output", "output_bytes"}, {"output_ref": true, "output_bytes"} or
{"failure": {"type", "message", "exception", "traceback"}}, with task_secs, the duration
of the task's function; or {"error"} if the sandbox itself failed, with out_of_memory if
the kernel killed the task because of its memory, and with unstarted if the task has not
begun because of a temporary error.

For a file that the task saves or opens the runner posts {"events": [], "save_file":
number} or {"events": [], "open_file": reference} to /logs. The answer has "reference" and
"url"; the bytes are streamed between this URL and the task's pipe. Lines that the route
does not accept, or that a task writes faster than they can be posted, are dropped, which
a line of the log reports.

The task runs in a child process of the local transport, kept warm for one artifact. So
one version of a flow never imports the modules of another, a task that does not stop is
killed, and a task cannot access the function's own environment.
"""

import hashlib
import http.client
import os
import shutil
import tempfile
import time
import urllib.request

from . import artifact, orphans
from .child import Child
from .links import passing
from .masking import Masker
from .report import Reporter, Route

_MARGIN_SECS = 5.0  # for the answer and the last log lines


class Cloud:
    """Runs events one after another in this function's environment."""

    def __init__(self, root=None):
        self._root = root or os.path.join(tempfile.gettempdir(), "millrace")
        self._child = None
        self._hash = None
        # A process of a task could not be killed, so this environment must not run another task.
        self.soiled = False
        orphans.harden()

    def run(self, event, remaining=None, url=None):
        """Run one event; remaining is the time in seconds until Lambda ends the function."""
        self._limit = time.monotonic() + remaining - _MARGIN_SECS if remaining is not None else float("inf")
        route = Route(url or os.environ["MILLRACE_ATTEMPTS_URL"], event["token"])
        request = route.start()
        if request is None:
            return {"over": True}
        while True:
            reporter = Reporter(route, Masker((request.get("secrets") or {}).values()))
            try:
                answer = self._run(request, reporter)
            except BaseException:
                reporter.complete({"error": "the runner failed"})
                raise
            done = reporter.complete(answer, self._left())
            if not (done or {}).get("next"):
                return {"taken": done is not None}
            route, request = route.of(done["next"]["token"]), done["next"]["request"]

    def _left(self):
        """Return how many seconds there are for another task, 0 if this environment is to have none."""
        left = self._limit - time.monotonic()
        return 0 if self.soiled or left == float("inf") else max(0, round(left, 1))

    def _run(self, event, reporter):
        try:
            directory = self._artifact(event["artifact"])
        except artifact.RefusedError as error:
            return {"failure": {"type": "TaskFailedError", "message": str(error)}}
        except (OSError, http.client.HTTPException) as error:
            answer = {"error": f"the artifact could not be fetched: {type(error).__name__} {getattr(error, 'code', '')}".rstrip()}
            return {**answer, "unstarted": True} if passing(error) else answer
        request = {k: v for k, v in event.items() if k != "artifact"}
        if self._child is not None and (self._hash != event["artifact"]["hash"] or self._child.stale()):
            self.close()
        answer = None
        while answer is None:  # a child that an earlier request broke is replaced
            if self._child is None:
                self._child, self._hash = Child(directory, os.path.join(self._root, "scratch")), event["artifact"]["hash"]
            answer = self._child.call(request, reporter, self._limit)
            if answer is None:
                self.close()
        if self._child.spent:
            self.close()
            self.soiled = not orphans.end()
        return answer

    def close(self):
        """End the child, if there is one."""
        if self._child is not None:
            self._child.kill()
        self._child = None

    def _artifact(self, named):
        directory = os.path.join(self._root, "artifacts", hashlib.sha256(named["hash"].encode()).hexdigest())
        if os.path.isdir(directory):
            return directory
        # Keep one artifact at a time, because the function's disk is small.
        self.close()
        shutil.rmtree(os.path.dirname(directory), ignore_errors=True)
        os.makedirs(os.path.dirname(directory))
        path, part = directory + ".zip", directory + ".part"
        with urllib.request.urlopen(named["url"], timeout=60) as source, open(path, "wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
            if source.length:  # reading by pieces does not tell that the connection broke off
                raise http.client.IncompleteRead(b"", source.length)
        os.makedirs(part)
        artifact.extract(path, part)
        os.unlink(path)
        os.rename(part, directory)
        return directory
