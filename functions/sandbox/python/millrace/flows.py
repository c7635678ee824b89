"""Flows: the body of a function, executed once, defines the DAG."""

from __future__ import annotations

import json

from . import _arguments, _secrets, tasks
from ._arguments import KEYWORD_ONLY
from ._inputs import Reader
from ._placeholders import Handle, Parameter
from ._types import TYPE_CHECKING, P, R, Signature, overload
from .errors import DependencyCycleError, FlowDefinitionError

if TYPE_CHECKING:
    from ._local import RunResult
    from ._types import Any, Callable, Mapping, Seconds, Tier


class _Entry:
    """A task of a flow: its source, options, arguments and dependencies."""

    def __init__(self, source, name=None):
        self.source = source
        self.name = name or source.name
        self.type = source.type
        self.options = {**source.options, "depends_on": list(source.options["depends_on"])}
        self.depends_on = []
        self.given = {}
        self.inputs = None

    @property
    def special(self):
        """The arguments that the runner passes to every attempt."""
        return {"ctx", "item", "index"} if self.options["map_over"] is not None else {"ctx"}


class Builder:
    """Collects the tasks of a flow while its body runs."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.entries = {}
        self.result = None

    def add(self, source):
        entry = _Entry(source, self._name(source))
        self.entries[entry.name] = entry
        return Handle(entry)

    def _name(self, source):
        """Return the name of a new task: a number is added to one in use."""
        if source.name not in self.entries:
            return source.name
        plain = _arguments.plain
        if not isinstance(source, tasks.Task) or plain(self.entries[source.name].source) is not plain(source):
            raise FlowDefinitionError(f"the flow has two tasks named {source.name!r}: give one another name, with_options(name=...)")
        number = 2
        while f"{source.name[: 63 - len(str(number))]}_{number}" in self.entries:
            number += 1
        return f"{source.name[: 63 - len(str(number))]}_{number}"

    def call(self, task, args, kwargs, over=None):
        handle = self.add(task)
        entry = handle.task
        wanted = task.parameters()
        if over is not None:
            entry.options["map_over"] = over
        own = entry.special
        names = [name for name, kind, _ in wanted if kind != KEYWORD_ONLY and name not in own]
        if len(args) > len(names):
            raise FlowDefinitionError(f"task {entry.name!r} takes {len(names)} arguments, {len(args)} are given")
        given = dict(zip(names, args))
        for name, value in kwargs.items():
            if name in given or name not in [w[0] for w in wanted]:
                raise FlowDefinitionError(f"task {entry.name!r} {'gets twice' if name in given else 'has no'} argument {name!r}{_near(name, wanted)}")
            if name in own:
                raise FlowDefinitionError(f"task {entry.name!r} gets {name!r} from the runner: leave it out")
            given[name] = value
        entry.given = given
        for value in given.values():
            if isinstance(value, Handle):
                entry.depends_on.append(value.name)
        return handle

    def finish(self, result=None):
        """Resolve and check the dependencies of the tasks and the result of the flow."""
        self._depend()
        for entry in self.entries.values():
            self._read_options(entry)
        for entry in self.entries.values():
            # Tasks that arguments or expressions read are dependencies.
            reader = Reader(self.entries, entry.name)
            for name, value in entry.given.items():
                reader.template(value, f"task {entry.name!r}: the argument {name}")
            entry.depends_on = list(dict.fromkeys([*entry.depends_on, *reader.tasks]))
            entry.inputs = reader.inputs(entry, self.parameters)
        self._check_cycle()
        for entry in self.entries.values():
            self._check_arguments(entry)
        if result is not None:
            self.result = Reader(self.entries).result(result, "what the flow returns")

    def _depend(self):
        waiting = list(self.entries.values())
        while waiting:
            entry = waiting.pop(0)
            for other in entry.options["depends_on"]:
                name = other if isinstance(other, str) else getattr(other, "name", None)
                if isinstance(other, tasks.Task) and name not in self.entries:
                    self.add(other)  # named by a decorator alone
                    waiting.append(self.entries[name])
                if name not in self.entries:
                    raise FlowDefinitionError(f"task {entry.name!r} depends on {name or other!r}, which is no task of the flow")
                entry.depends_on.append(name)

    def _read_options(self, entry):
        reader, options = Reader(self.entries, entry.name), entry.options
        for key in ("condition", "map_over"):
            if (value := options[key]) is not None:
                where = f"task {entry.name!r}: {key}"
                options[key] = reader.expression(value, where) if isinstance(value, str) else reader.literal(value, where)
        if (config := options["config"]) is not None:
            options["config"] = reader.template(config, f"task {entry.name!r}: config")
            if entry.type == "transform":
                reader.expression(options["config"]["expression"], f"task {entry.name!r}: expression")
        entry.depends_on = list(dict.fromkeys([*entry.depends_on, *reader.tasks]))

    def _check_cycle(self):
        done, path, on_path = set(), [], set()

        def visit(name):
            # Iterative: a chain of tasks may be longer than Python's stack.
            stack = [(name, iter(self.entries[name].depends_on))]
            path.append(name)
            on_path.add(name)
            while stack:
                current, rest = stack[-1]
                for other in rest:
                    if other in on_path:
                        raise DependencyCycleError([*path[path.index(other) :], other][::-1])
                    if other not in done:
                        path.append(other)
                        on_path.add(other)
                        stack.append((other, iter(self.entries[other].depends_on)))
                        break
                else:
                    stack.pop()
                    on_path.discard(path.pop())
                    done.add(current)

        for name in self.entries:
            if name not in done:
                visit(name)

    def _check_arguments(self, entry):
        known = {*entry.special, *entry.given, *self.parameters, *(name.replace("-", "_") for name in entry.depends_on), *entry.depends_on}
        for name, _, has_default in entry.source.parameters():
            if has_default or name in known:
                continue
            hint = ""
            if name in self.entries:
                hint = f": pass the output of {name!r} to it, or name it in depends_on"
            elif name in ("item", "index"):
                hint = f": use {entry.name}.map(...)"
            raise FlowDefinitionError(f"task {entry.name!r} needs the argument {name!r}, which no upstream task and no parameter gives{hint}")


def _near(name, wanted):
    import difflib

    near = difflib.get_close_matches(name, [w[0] for w in wanted], 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def task_spec(entry, tier=None):
    """Return the entry of a task in the flow_spec; tier is the default of Python tasks."""
    spec = {"name": entry.name, "type": entry.type}
    config = entry.options["config"]
    if entry.type == "python":
        spec["entrypoint"] = entry.source.entrypoint
        config = _secrets.config(config, _secrets.of_task(entry))
        tier = entry.options["tier"] or tier
    else:
        tier = entry.options["tier"]
    if entry.depends_on:
        spec["depends_on"] = entry.depends_on
    for key in ("retries", "retry_backoff", "timeout_secs", "trigger_rule", "condition", "map_over"):
        if entry.options[key] is not None:
            spec[key] = entry.options[key]
    for key, value in (("config", config), ("inputs", entry.inputs), ("tier", tier)):
        if value is not None:
            spec[key] = value
    return spec


class Flow(Signature[P, R]):
    """A flow. ``spec()`` returns the flow_spec that the service registers; calling the flow runs it locally."""

    def __init__(self, function: Callable[P, R], name: str | None = None, version: str = "1", parameters: Mapping[str, Any] | None = None,
                 timeout_secs: float | None = None, on_failure: Any = None, tier: Tier | None = None):
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.name = name or function.__name__
        self.version = str(version)
        self.timeout_secs = timeout_secs
        self.on_failure = on_failure
        self.tier = tasks.check_tier(tier)
        self._given = parameters
        self._schema = None
        self._built = None

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of the run's parameters."""
        if self._given:
            return self._given
        if self._schema is None:
            from . import _schema

            self._schema = _schema.of(self.function)
        return self._schema

    def build(self):
        """Return the Builder of the flow's tasks, created once."""
        if self._built is None:
            names = list(self.parameters.get("properties", {}))
            builder = Builder(names)
            arguments = {name: Parameter(name) for name in self._names()}
            if missing := set(arguments) - set(names):
                raise FlowDefinitionError(f"parameters= does not describe {', '.join(sorted(missing))}")
            tasks._building.append(builder)
            try:
                result = self.function(**arguments)
            finally:
                tasks._building.pop()
            if not builder.entries:
                raise FlowDefinitionError(f"the flow {self.name!r} has no task")
            builder.finish(result)
            self._built = builder
        return self._built

    def _names(self):
        return [name for name, _, _ in _arguments.parameters(self.function)]

    def failure_entry(self):
        """Return the entry of on_failure, or None."""
        if self.on_failure is None:
            return None
        source = self.on_failure
        if not hasattr(source, "options"):
            raise FlowDefinitionError("on_failure is a task, or one made by millrace.http and the like")
        return _Entry(source)

    def spec(self) -> dict[str, Any]:
        """Return the flow_spec as a dict."""
        builder = self.build()
        spec = {"parameters": self.parameters}
        if self.timeout_secs is not None:
            spec["timeout_secs"] = self.timeout_secs
        spec["tasks"] = [task_spec(entry, self.tier) for entry in builder.entries.values()]
        if entry := self.failure_entry():
            spec["on_failure"] = task_spec(entry, self.tier)
        if builder.result is not None:
            spec["result"] = builder.result
        return spec

    def to_json(self, indent: int | None = 2) -> str:
        """Return the flow_spec as JSON text."""
        return json.dumps(self.spec(), indent=indent, ensure_ascii=False, allow_nan=False)

    def run(self, *, stub: Mapping[str, Any] | None = None, **parameters: Any) -> RunResult:
        """Run the flow on this machine and return a RunResult.

        stub: {task name: its output, or a function that replaces it}, for tests.
        Raises the error of the first task that failed: TaskFailedError,
        TaskTimeoutError or ArtifactSerializationError.
        """
        return self._run(parameters, stub or {})

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> RunResult:
        names = self._names()
        if len(args) > len(names):
            raise FlowDefinitionError(f"the flow {self.name!r} takes {len(names)} parameters, {len(args)} are given")
        given = dict(zip(names, args))
        if twice := set(given) & set(kwargs):
            raise FlowDefinitionError(f"the flow {self.name!r} gets twice the parameter {', '.join(sorted(twice))}")
        return self._run({**given, **kwargs}, {})

    def _run(self, parameters, stub):
        if tasks.building() is not None:
            raise FlowDefinitionError(f"the flow {self.name!r} is called in the body of another one")
        from ._local import run

        return run(self, parameters, stub)

    def __repr__(self):
        return f"<flow {self.name}>"


@overload
def flow(function: Callable[P, R], /) -> Flow[P, R]: ...
@overload
def flow(
    *, name: str | None = None, version: str = "1", parameters: Mapping[str, Any] | None = None, timeout: Seconds | None = None,
    timeout_secs: float | None = None, on_failure: Any = None, tier: Tier | None = None,
) -> Callable[[Callable[P, R]], Flow[P, R]]: ...
def flow(function=None, *, name=None, version="1", parameters=None, timeout=None, timeout_secs=None, on_failure=None, tier=None):
    """Turn a function into a flow: its body calls tasks, its arguments are the parameters of runs.

    Its return value is the run's result: a task's output, or a dict or list of them.
    parameters: JSON Schema of the parameters; by default derived from annotations and
    defaults. timeout: of a whole run, in the forms of a task's. on_failure: a task
    that runs when a run fails. tier: the default of Python tasks.
    """
    timeout_secs = tasks.seconds(timeout, timeout_secs)

    def decorate(function):
        return Flow(function, name, version, parameters, timeout_secs, on_failure, tier)

    return decorate if function is None else decorate(function)
