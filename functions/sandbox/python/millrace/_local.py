"""Local runs: the scheduler.

One thread schedules; every attempt of a task is a process, so that tasks run in
parallel, a timeout kills a process, and values pass between tasks as JSON, as they do
in the service.
"""

import heapq
import json
import os
import signal
import sys
import time

from . import _cel, _files, _schema, _typed, _values
from ._attempt import Attempt, Stub, failure
from ._record import Record, home
from .errors import ArtifactSerializationError, ExpressionError, FlowDefinitionError, MillraceError, TaskFailedError, TaskTimeoutError

FAILED = ("FAILED", "TIMED_OUT", "UPSTREAM_FAILED")
DONE = ("SUCCEEDED", "SKIPPED", *FAILED)
ERRORS = {e.__name__: e for e in (TaskFailedError, TaskTimeoutError, ArtifactSerializationError, ExpressionError)}
DEFAULT_TIMEOUT_SECS = 600
MAX_INSTANCES = 10_000
MAX_FAILED = 100  # that on_failure is told
MAX_BLAMED, MAX_BLAME = 3, 300  # tasks that the run's error names, and bytes of the error of each
_MISSING = object()


class RunResult:
    """A finished run: run_id, status, outputs by task name, result (what the flow
    returns), path of its directory. ``run[task_name]`` is a task's output, in
    which files are File objects."""

    def __init__(self, run_id, status, outputs, result, path):
        self.run_id, self.status, self.outputs, self.result, self.path = run_id, status, outputs, result, path

    def __getitem__(self, task_name):
        return _typed.files(self.outputs[task_name])

    def __repr__(self):
        return f"<run {self.run_id} {self.status}>"


class _State:
    """The state of one task."""

    def __init__(self, entry):
        self.entry = entry
        self.status = "PENDING"
        self.reason = None  # why it was skipped
        self.output = None
        self.error = None  # what failure makes
        self.failed = []  # what on_failure is told of it
        self.told = {}  # what on_failure is told, where this is its task: failed and failed_count
        self.waiting = 0  # instances not yet over
        self.mapped = False
        self.outputs = []
        self.outcomes = []


def run(flow, given, stub, max_workers=None):
    """Run a flow; see Flow.run."""
    if not hasattr(os, "fork"):
        raise FlowDefinitionError("local runs need fork: use Linux, macOS or WSL")
    _shorten_tracebacks()
    flow.spec()  # what the service would refuse is refused here
    builder = flow.build()
    if unknown := sorted(set(stub) - set(builder.entries)):
        raise FlowDefinitionError(f"stub names {', '.join(map(repr, unknown))}, which is no task of the flow {flow.name!r}")
    parameters = check_parameters(flow.parameters, given)
    return _Run(flow, builder, parameters, stub, max_workers or max(4, 2 * (os.cpu_count() or 1))).run()


def check_parameters(schema, given):
    """Return the run's parameters: given ones checked, defaults applied."""
    properties = schema.get("properties", {})
    unknown = sorted(set(given) - set(properties))
    if unknown:
        raise FlowDefinitionError(f"the flow has no parameter {', '.join(map(repr, unknown))}")
    parameters = {name: p["default"] for name, p in properties.items() if "default" in p}
    parameters.update(given)
    missing = [name for name in schema.get("required", []) if name not in parameters]
    if missing:
        raise FlowDefinitionError(f"the flow needs the parameter {', '.join(map(repr, missing))}")
    try:
        parameters = json.loads(_values.encode(parameters, "the parameters"))
    except ArtifactSerializationError as error:
        raise FlowDefinitionError(str(error)) from None
    for name, value in parameters.items():
        _schema.check(name, value, properties.get(name, {}))
    return parameters


def _shorten_tracebacks():
    """Hide the frames of this package if an error of a run ends the program."""
    before = sys.excepthook
    if getattr(before, "__module__", "") == __name__:
        return

    def hook(kind, error, trace):
        if not issubclass(kind, MillraceError):
            return before(kind, error, trace)
        import traceback

        summary = [f for f in traceback.extract_tb(trace) if os.path.dirname(f.filename) != os.path.dirname(os.path.abspath(__file__))]
        for line in ("Traceback (most recent call last):\n", *traceback.format_list(summary), f"millrace.{kind.__name__}: {error}\n"):
            sys.stderr.write(line)

    hook.__module__ = __name__
    sys.excepthook = hook


def fetch(key, _name):
    """Return the path of a file that a task of a local run saved."""
    path = os.path.normpath(os.path.join(home(), "runs", key))
    if os.path.isabs(key) or ".." in key.split(os.sep) or not os.path.isfile(path):
        raise TaskFailedError(f"there is no file {key!r} of a local run")
    return path


_files.fetch = fetch


class _Run:
    def __init__(self, flow, builder, parameters, stub, max_workers):
        self.flow, self.parameters, self.stub, self.max_workers = flow, parameters, stub, max_workers
        self.returned = builder.result
        self.late = self.has_files = False
        self.handlers = {}  # the state of on_failure by its name, when it ran
        self.states = {name: _State(entry) for name, entry in builder.entries.items()}
        self.dependents = {name: [] for name in self.states}
        for name, state in self.states.items():
            for other in state.entry.depends_on:
                self.dependents[other].append(name)
        self.record = Record(flow, parameters)
        self.ready = []  # (due, sequence, attempt)
        self.sequence = 0
        self.running = []
        self.settled = None  # names of tasks whose dependents are to be looked at
        self.started = time.monotonic()

    def run(self):
        self.record.log("info", "", f"Run {self.record.run_id} of {self.flow.name} {self.flow.version} started", "run_started")
        try:
            status = self._all()
            if status != "SUCCEEDED" and (entry := self.flow.failure_entry()):
                self._failure_task(entry, status)
        except BaseException:
            self._stop("The run was cancelled.")
            self.record.finish("CANCELLED", self.states, None)
            raise
        error, result = self._error(status), None
        if error is None and self.returned is not None:
            how = _cel.evaluate if isinstance(self.returned, str) else _cel.render
            try:
                result = how(self.returned, self._names())
            except ExpressionError as fault:
                self.record.log("warning", "", f"the flow's result has no value: {fault}")
        self.record.finish(status, {**self.states, **self.handlers}, error, result)
        if error:
            raise ERRORS.get(error["type"], TaskFailedError)(error["message"]) from None
        outputs = {name: state.output for name, state in self.states.items() if state.status == "SUCCEEDED"}
        return RunResult(self.record.run_id, status, outputs, result, self.record.path)

    def _all(self):
        for name in [n for n, s in self.states.items() if not s.entry.depends_on]:
            self._decide(name)
        limit = self.flow.timeout_secs
        if not self._loop(None if limit is None else self.started + limit):
            self.record.log("error", "", self._too_long())
            self.late = True
            return "TIMED_OUT"
        sinks = [s for n, s in self.states.items() if not self.dependents[n]]
        if not any(s.status in FAILED for s in sinks):
            return "SUCCEEDED"
        return "FAILED" if any(s.status == "FAILED" for s in self._decisive()) else "TIMED_OUT"

    def _loop(self, deadline):
        """Run ready tasks until none is left; false if the deadline has passed."""
        while self.ready or self.running:
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                self._stop("The run passed its timeout_secs.")
                return False
            while self.ready and self.ready[0][0] <= now and len(self.running) < self.max_workers:
                attempt = heapq.heappop(self.ready)[2]
                # A signal that ends the run here would leave a process running.
                before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
                try:
                    attempt.start()
                    self.running.append(attempt)
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
            wake = [a.deadline for a in self.running]
            if deadline is not None:
                wake.append(deadline)
            if self.ready and len(self.running) < self.max_workers:
                wake.append(self.ready[0][0])
            Attempt.watch(self.running, min(wake, default=now) - now)
            for attempt in [a for a in self.running if a.over()]:
                self.running.remove(attempt)
                self._ended(attempt)
        return True

    def _stop(self, why):
        for attempt in self.running:
            attempt.stop(why)
            self.record.attempt(attempt, "CANCELLED")
            request, name = attempt.request, attempt.state.entry.name
            self.record.log("warning", name, f"Task {name} stopped: {why}", "task_cancelled", request.get("map_index"), request["attempt"])
        for state in (*self.states.values(), *self.handlers.values()):
            if state.status not in DONE:
                state.status = "CANCELLED"
                self.record.task(state)
        self.running, self.ready = [], []

    def _names(self):
        # The same names as in the service.
        record, tasks = self.record, {}
        for name, state in self.states.items():
            if state.status in DONE:
                tasks[name] = {"output": state.output, "status": state.status}
        run = {"run_id": record.run_id, "flow_name": self.flow.name, "flow_version": self.flow.version, "environment": "local",
               "logical_date": self.parameters.get("logical_date", record.created)}
        return {"params": self.parameters, "run": run, "vars": {}, "tasks": tasks}

    def _decide(self, name):
        """Start, skip or fail a task whose dependencies have all ended."""
        state = self.states[name]
        options = state.entry.options
        statuses = [self.states[n].status for n in state.entry.depends_on]
        failed, skipped = any(s in FAILED for s in statuses), "SKIPPED" in statuses
        rule = options["trigger_rule"] or "all_success"
        if rule in ("all_success", "none_failed") and failed:
            return self._over(state, "UPSTREAM_FAILED", error=failure("UpstreamFailedError", "A task it depends on did not succeed."))
        if rule == "all_success" and skipped or rule == "one_failed" and not failed:
            return self._over(state, "SKIPPED", reason=f"its trigger rule {rule} does not hold")
        try:
            if options["condition"] is not None:
                if not _cel.boolean(options["condition"], self._names(), "condition"):
                    return self._over(state, "SKIPPED", reason="its condition is false")
            stub = self.stub.get(name, _MISSING)
            if stub is not _MISSING and not callable(stub) and not isinstance(stub, BaseException):
                data = _values.encode(stub, f"the stub of {name}")
                self.has_files = self.has_files or _files.MARK in data
                return self._over(state, "SUCCEEDED", json.loads(data))
            if options["map_over"] is None:
                state.waiting, state.outputs = 1, [None]
                return self._enqueue(state, None, None, 1, 0)
            items = _cel.elements(options["map_over"], self._names(), "map_over")
            if len(items) > MAX_INSTANCES:
                raise ExpressionError(f"map_over: the list has {len(items)} elements, at most {MAX_INSTANCES} are allowed")
        except ExpressionError as error:
            state.waiting, state.outputs = 1, [None]
            return self._enqueue(state, None, None, 1, 0, error)
        state.mapped, state.waiting, state.outputs = True, len(items), [None] * len(items)
        if not items:
            return self._over(state, "SUCCEEDED", [])
        for index, item in enumerate(items):
            self._enqueue(state, index, item, 1, 0)

    def _enqueue(self, state, index, item, number, delay, error=None):
        """Schedule an attempt in some seconds; with an error, one that fails with it."""
        self.sequence += 1
        attempt = self._attempt(state, index, item, number, error)
        attempt.state = state
        heapq.heappush(self.ready, (time.monotonic() + delay, self.sequence, attempt))
        if state.status == "PENDING":
            state.status = "RUNNING"

    def _attempt(self, state, index, item, number, error=None):
        entry, names = state.entry, self._names()
        request = {
            "run_id": self.record.run_id, "flow_name": self.flow.name, "flow_version": self.flow.version, "task_name": entry.name,
            "task_run_id": f"{self.record.run_id}/{entry.name}" + ("" if index is None else f"/{index}"), "attempt": number,
            "inputs": {n: {"value": self.states[n].output} for n in entry.depends_on if n in self.states}, "params": self.parameters,
            "arguments": None, "has_files": self.has_files,
        }
        if index is not None:
            request["map_index"], request["item"] = index, item
            names = {**names, "item": item, "index": index}
        request.update(state.told)
        names = {**names, **state.told}
        stub = error or self.stub.get(entry.name, _MISSING)
        if entry.inputs is not None and error is None:
            try:
                request["arguments"] = _cel.render(entry.inputs, names, "inputs")
            except ExpressionError as error:
                stub = error
        if stub is not _MISSING:
            return Stub(entry, request, self.record, stub)
        return Attempt(entry, request, names, entry.options["timeout_secs"] or DEFAULT_TIMEOUT_SECS, self.record)

    def _ended(self, attempt):
        state, request = attempt.state, attempt.request
        number, index, name = request["attempt"], request.get("map_index"), state.entry.name
        self.has_files = self.has_files or attempt.has_files
        error = attempt.error
        retries = state.entry.options["retries"] or 0
        again = error is not None and error["type"] != "ExpressionError" and number <= retries  # what has no value has none later
        status = "SUCCEEDED" if error is None else "TIMED_OUT" if error["type"] == "TaskTimeoutError" else "FAILED"
        self.record.attempt(attempt, status)
        if again:
            delay = backoff(state.entry.options["retry_backoff"], number)
            text = f"Task {name} failed: {error['type']}: {error['message']}; attempt {number + 1} follows in {delay:g}s"
            self.record.log("warning", name, text, "task_retrying", index, number)
            return self._enqueue(state, index, request.get("item"), number + 1, delay)
        if error is None:
            took = f"{attempt.ended_at - attempt.started_at:.3f}s"
            self.record.log("info", name, f"Task {name} succeeded in {took}", "task_succeeded", index, number)
        else:
            self.record.log("error", name, f"Task {name} failed: {error['type']}: {error['message']}", "task_failed", index, number)
            state.failed.append(told_failure(name, index, number, error))
        state.outputs[index or 0] = attempt.output if error is None else None
        state.outcomes.append(status)
        if error is not None and state.error is None:
            state.error = error
        state.waiting -= 1
        if state.waiting:
            return None
        worst = next(s for s in ("FAILED", "TIMED_OUT", "SUCCEEDED") if s in state.outcomes)
        return self._over(state, worst, state.outputs if state.mapped else state.outputs[0], state.error)

    def _over(self, state, status, output=None, error=None, reason=None):
        state.status, state.output, state.error, state.reason = status, output, error, reason
        name = state.entry.name
        if status == "SUCCEEDED":
            self.record.artifact(name, output)
        self.record.task(state)
        if status == "SKIPPED":
            self.record.log("info", name, f"Task {name} skipped: {reason}", "task_skipped")
        elif status == "UPSTREAM_FAILED":
            rule = state.entry.options["trigger_rule"] or "all_success"
            text = f"Task {name} not run: a task it depends on did not succeed (trigger rule {rule})"
            self.record.log("warning", name, text, "task_failed")
        if self.settled is not None:
            return self.settled.append(name)  # the loop below is at work: a long chain is no deep recursion
        self.settled = [name]
        while self.settled:
            for other in self.dependents.get(self.settled.pop(), ()):
                waiting = self.states[other].status == "PENDING"
                if waiting and all(self.states[n].status in DONE for n in self.states[other].entry.depends_on):
                    self._decide(other)
        self.settled = None

    def _failure_task(self, entry, status):
        # It is not a task of the DAG: nothing depends on it, and it does not change the outcome.
        state = self.handlers[entry.name] = _State(entry)
        state.waiting, state.outputs = 1, [None]
        failed = [told for other in self.states.values() for told in sorted(other.failed, key=lambda told: told["map_index"] or 0)]
        state.told = {"failed": failed[:MAX_FAILED], "failed_count": len(failed)}
        self.record.log("info", entry.name, f"the run is {status}: on_failure runs", "task_started")
        self._enqueue(state, None, None, 1, 0)
        self._loop(None)

    def _error(self, status):
        if status == "SUCCEEDED":
            return None
        decisive = self._decisive()
        if self.late or not decisive:
            return failure("TaskTimeoutError", self._too_long())
        decisive = [s for s in decisive if s.status == status]
        more = f", and {len(decisive) - MAX_BLAMED} more" if len(decisive) > MAX_BLAMED else ""
        first = decisive[0].error
        count = sum(s.status in ("FAILED", "TIMED_OUT") for s in self.states.values())
        text = f"{count} of {len(self.states)} tasks failed: {', '.join(map(_blame, decisive[:MAX_BLAMED]))}{more}"
        return failure(first["type"], text, first["exception"], first["traceback"])

    def _too_long(self):
        return f"The run passed its timeout_secs ({self.flow.timeout_secs:g})."

    def _decisive(self):
        """Return the failed tasks that determine the run's status, the causes of its sinks' failures."""
        todo = [s for n, s in self.states.items() if not self.dependents[n] and s.status in FAILED]
        seen, found = set(), []
        while todo:
            state = todo.pop(0)
            if state.entry.name in seen:
                continue
            seen.add(state.entry.name)
            if state.status == "UPSTREAM_FAILED":
                todo.extend(self.states[n] for n in state.entry.depends_on if self.states[n].status in FAILED)
            elif state.error:
                found.append(state)
        return [state for state in self.states.values() if state in found]


def _blame(state):
    """Describe a failed task, or the first failed instance of a map, and its error."""
    error, name, more = state.error, state.entry.name, ""
    if state.mapped:
        first = min(state.failed, key=lambda told: told["map_index"])
        error = {"type": first["error_type"], "message": first["error_message"]}
        name, more = f"{name}[{first['map_index']}]", f"; {len(state.failed)} of {len(state.outputs)} instances failed"
    why = error["message"] if error["type"] == "TaskFailedError" else f"{error['type']}: {error['message']}"
    why = " ".join(why.split())
    if len(why.encode()) > MAX_BLAME:
        why = why.encode()[:MAX_BLAME].decode("utf-8", "ignore") + "…"
    return f"{name} ({why}{more})"


def told_failure(name, index, attempt, error):
    """Return the argument of on_failure for a failure."""
    return {"task_name": name, "map_index": index, "attempt": attempt, "error_type": error["type"], "error_message": error["message"]}


def backoff(settings, failed_attempts):
    """Return the seconds to wait after the n-th failed attempt."""
    settings = settings or {}
    delay = settings.get("delay_secs", 1) * settings.get("factor", 1) ** (failed_attempts - 1)
    return min(delay, settings.get("max_secs", delay))
