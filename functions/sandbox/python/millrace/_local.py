"""Local runs: the scheduler.

One thread watches; every attempt of a task is a process of its own, so tasks run
in parallel, a time-out is the end of a process, and values pass between tasks as
JSON, as they do in the service.
"""

import heapq
import json
import os
import time

from . import _cel, _values
from ._attempt import Attempt
from ._record import Record
from .errors import ArtifactSerializationError, ExpressionError, FlowDefinitionError, TaskFailedError, TaskTimeoutError

FAILED = ("FAILED", "TIMED_OUT", "UPSTREAM_FAILED")
DONE = ("SUCCEEDED", "SKIPPED", *FAILED)
ERRORS = {e.__name__: e for e in (TaskFailedError, TaskTimeoutError, ArtifactSerializationError)}
DEFAULT_TIMEOUT_SECS = 600
MAX_INSTANCES = 10_000


class RunResult:
    """A finished run: run_id, status, outputs by task name, path of its directory."""

    def __init__(self, run_id, status, outputs, path):
        self.run_id, self.status, self.outputs, self.path = run_id, status, outputs, path

    def __getitem__(self, task_name):
        return self.outputs[task_name]

    def __repr__(self):
        return f"<run {self.run_id} {self.status}>"


class _State:
    """What has become of one task."""

    def __init__(self, entry):
        self.entry = entry
        self.status = "PENDING"
        self.output = None
        self.error = None  # (type, message)
        self.waiting = 0  # instances not yet over
        self.mapped = False
        self.outputs = []
        self.outcomes = []


def run(flow, given, max_workers=None):
    """Run a flow; see Flow.run."""
    if not hasattr(os, "fork"):
        raise FlowDefinitionError("local runs need fork: use Linux, macOS or WSL")
    builder = flow.build()
    parameters = check_parameters(flow.parameters, given)
    return _Run(flow, builder, parameters, max_workers or max(4, 2 * (os.cpu_count() or 1))).run()


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
    parameters = json.loads(_values.encode(parameters, "the parameters"))
    for name, value in parameters.items():
        _check_type(name, value, properties.get(name, {}))
    return parameters


def _check_type(name, value, schema):
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    checks = {
        "string": lambda v: isinstance(v, str),
        "integer": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) and v == int(v),
        "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
        "boolean": lambda v: isinstance(v, bool),
        "array": lambda v: isinstance(v, list),
        "object": lambda v: isinstance(v, dict),
        "null": lambda v: v is None,
    }
    if kinds and not any(checks[kind](value) for kind in kinds):
        raise FlowDefinitionError(f"the parameter {name!r} is {value!r}, not of type {' or '.join(kinds)}")
    if "enum" in schema and value not in schema["enum"]:
        raise FlowDefinitionError(f"the parameter {name!r} is {value!r}, not one of {schema['enum']}")


class _Run:
    def __init__(self, flow, builder, parameters, max_workers):
        self.flow, self.parameters, self.max_workers = flow, parameters, max_workers
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
        self.record.log("info", "", f"run {self.record.run_id} of {self.flow.name} started")
        try:
            status = self._all()
            if status != "SUCCEEDED" and (entry := self.flow.failure_entry()):
                self._failure_task(entry, status)
        except BaseException:
            self._stop()
            self.record.finish("CANCELLED", self.states, None)
            raise
        error = self._error(status)
        self.record.finish(status, self.states, error)
        if error:
            raise ERRORS.get(error[0], TaskFailedError)(error[1]) from None
        outputs = {name: state.output for name, state in self.states.items() if state.status == "SUCCEEDED"}
        return RunResult(self.record.run_id, status, outputs, self.record.path)

    def _all(self):
        for name in [n for n, s in self.states.items() if not s.entry.depends_on]:
            self._decide(name)
        limit = self.flow.timeout_secs
        if not self._loop(None if limit is None else self.started + limit):
            self.record.log("error", "", f"the run passed the flow's timeout_secs ({limit})")
            return "TIMED_OUT"
        sinks = [s for n, s in self.states.items() if not self.dependents[n]]
        if not any(s.status in FAILED for s in sinks):
            return "SUCCEEDED"
        return "FAILED" if any(self._cause(s) == "FAILED" for s in sinks) else "TIMED_OUT"

    def _cause(self, state):
        """Return FAILED, TIMED_OUT or nothing: what a sink ended of in the end."""
        seen, todo, causes = set(), [state], set()
        while todo:
            state = todo.pop()
            if state.status in ("FAILED", "TIMED_OUT"):
                causes.add(state.status)
            elif state.status == "UPSTREAM_FAILED":
                todo.extend(self.states[n] for n in state.entry.depends_on if n not in seen)
                seen.update(state.entry.depends_on)
        return "FAILED" if "FAILED" in causes else "TIMED_OUT" if causes else ""

    def _loop(self, deadline):
        """Run what is ready until nothing is left; false when the deadline passed."""
        while self.ready or self.running:
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                self._stop()
                return False
            while self.ready and self.ready[0][0] <= now and len(self.running) < self.max_workers:
                attempt = heapq.heappop(self.ready)[2]
                attempt.start()
                self.running.append(attempt)
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

    def _stop(self):
        for attempt in self.running:
            attempt.kill()
        for state in self.states.values():
            if state.status not in DONE:
                state.status = "CANCELLED"
        self.running, self.ready = [], []

    def _names(self):
        # The same names that expressions see in the service.
        record, tasks = self.record, {}
        for name, state in self.states.items():
            if state.status in DONE:
                tasks[name] = {"output": state.output, "status": state.status}
        run = {"run_id": record.run_id, "flow_name": self.flow.name, "flow_version": self.flow.version, "environment": "local",
               "logical_date": self.parameters.get("logical_date", record.created)}
        return {"params": self.parameters, "run": run, "vars": {}, "tasks": tasks}

    def _decide(self, name):
        """Start, skip or fail a task whose dependencies are all over."""
        state = self.states[name]
        options = state.entry.options
        statuses = [self.states[n].status for n in state.entry.depends_on]
        failed, skipped = any(s in FAILED for s in statuses), "SKIPPED" in statuses
        rule = options["trigger_rule"] or "all_success"
        if rule in ("all_success", "none_failed") and failed:
            return self._over(state, "UPSTREAM_FAILED", error=("UpstreamFailed", "a task it depends on failed"))
        if rule == "all_success" and skipped or rule == "one_failed" and not failed:
            return self._over(state, "SKIPPED")
        try:
            if options["condition"] is not None:
                if _cel.evaluate(options["condition"], self._names()) is not True:
                    return self._over(state, "SKIPPED")
            if options["map_over"] is None:
                state.waiting, state.outputs = 1, [None]
                return self._enqueue(state, None, None, 1, 0)
            items = _cel.evaluate(options["map_over"], self._names())
            if not isinstance(items, list):
                raise ExpressionError("map_over is not a list")
            if len(items) > MAX_INSTANCES:
                raise ExpressionError(f"map_over has {len(items)} elements, the limit is {MAX_INSTANCES}")
        except ExpressionError as error:
            return self._over(state, "FAILED", error=("TaskFailedError", str(error)))
        state.mapped, state.waiting, state.outputs = True, len(items), [None] * len(items)
        if not items:
            return self._over(state, "SUCCEEDED", [])
        for index, item in enumerate(items):
            self._enqueue(state, index, item, 1, 0)

    def _enqueue(self, state, index, item, number, delay):
        entry = state.entry
        request = {
            "run_id": self.record.run_id, "flow_name": self.flow.name, "flow_version": self.flow.version, "task_name": entry.name,
            "task_run_id": f"{self.record.run_id}/{entry.name}" + ("" if index is None else f"/{index}"), "attempt": number,
            "inputs": {n: {"value": self.states[n].output} for n in entry.depends_on if n in self.states}, "params": self.parameters,
        }
        if index is not None:
            request["map_index"], request["item"] = index, item
        attempt = Attempt(entry, request, self._names(), entry.options["timeout_secs"] or DEFAULT_TIMEOUT_SECS, self.record)
        attempt.state = state
        self.sequence += 1
        heapq.heappush(self.ready, (time.monotonic() + delay, self.sequence, attempt))
        if state.status == "PENDING":
            state.status = "RUNNING"

    def _ended(self, attempt):
        state, request = attempt.state, attempt.request
        number, index = request["attempt"], request.get("map_index")
        error = attempt.error
        retries = state.entry.options["retries"] or 0
        again = error is not None and number <= retries
        status = "SUCCEEDED" if error is None else "TIMED_OUT" if error[0] == "TaskTimeoutError" else "FAILED"
        self.record.attempt(attempt, "RETRYING" if again else status)
        if again:
            delay = backoff(state.entry.options["retry_backoff"], number)
            self.record.log("warning", state.entry.name, f"attempt {number} failed: {error[0]}: {error[1]}; again in {delay:g} s")
            return self._enqueue(state, index, request.get("item"), number + 1, delay)
        state.outputs[index or 0] = attempt.output if error is None else None
        state.outcomes.append(status)
        if error is not None and state.error is None:
            state.error = error
        state.waiting -= 1
        if state.waiting:
            return None
        worst = next(s for s in ("FAILED", "TIMED_OUT", "SUCCEEDED") if s in state.outcomes)
        return self._over(state, worst, state.outputs if state.mapped else state.outputs[0], state.error)

    def _over(self, state, status, output=None, error=None):
        state.status, state.output, state.error = status, output, error
        name = state.entry.name
        if status == "SUCCEEDED":
            self.record.artifact(name, output)
        self.record.task(state)
        self.record.log("error" if status in FAILED else "info", name, status + (f": {error[0]}: {error[1]}" if error else ""))
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
        # It is no task of the DAG: nothing depends on it and it changes no outcome.
        state = _State(entry)
        state.waiting, state.outputs = 1, [None]
        self.record.log("info", entry.name, f"the run is {status}: on_failure runs")
        self._enqueue(state, None, None, 1, 0)
        self._loop(None)

    def _error(self, status):
        if status == "SUCCEEDED":
            return None
        for state in self.states.values():
            if state.error and state.status in ("FAILED", "TIMED_OUT"):
                return state.error[0], f"task {state.entry.name!r}: {state.error[1]}"
        return "TaskTimeoutError", f"the run passed the flow's timeout_secs ({self.flow.timeout_secs})"


def backoff(settings, failed_attempts):
    """Return the seconds to wait after the n-th failed attempt."""
    settings = settings or {}
    delay = settings.get("delay_secs", 1) * settings.get("factor", 1) ** (failed_attempts - 1)
    return min(delay, settings.get("max_secs", delay))
