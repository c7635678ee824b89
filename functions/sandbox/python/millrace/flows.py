"""Flows: the body of a function, read once, gives the DAG."""

import json
import re

from . import _arguments, _secrets, tasks
from ._arguments import KEYWORD_ONLY
from .errors import DependencyCycleError, FlowDefinitionError

_REFERENCE = re.compile(r"""\btasks(?:\.([A-Za-z]\w*)|\[\s*["']([^"']+)["']\s*\])""")
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object", tuple: "array", type(None): "null"}


class _Placeholder:
    """Stands for a value that exists only when the flow runs."""

    expression = ""
    name = ""

    def __str__(self):
        return "${{ " + self.expression + " }}"

    def __format__(self, _spec):
        return str(self)

    def _refuse(self, *_args):
        raise FlowDefinitionError(
            f"{self!r} has no value while the flow is put together: use it in a task, or in a condition= or map_over= expression"
        )

    __bool__ = __iter__ = __len__ = __getitem__ = __int__ = __float__ = __add__ = __lt__ = __gt__ = __le__ = __ge__ = _refuse


class Parameter(_Placeholder):
    """A run parameter in a flow's body."""

    def __init__(self, name):
        self.name = name
        self.expression = "params." + name

    def __repr__(self):
        return f"<parameter {self.name}>"


class Handle(_Placeholder):
    """A task in a flow's body; ``output`` is the expression of what it returns."""

    def __init__(self, task):
        self.task = task
        self.name = task.name
        self.output = self.expression = reference(task.name)

    def after(self, *others):
        """Make the task wait for others, which give it nothing. Returns the handle."""
        self.task.options["depends_on"].extend(others)
        return self

    def __repr__(self):
        return f"<output of {self.name}>"


def reference(name, field="output"):
    """Return the expression of a task's output."""
    return f'tasks["{name}"].{field}' if "-" in name else f"tasks.{name}.{field}"


class _Entry:
    """A task of a flow: its source, its own options, what it depends on."""

    def __init__(self, source):
        self.source = source
        self.name = source.name
        self.type = source.type
        self.options = {**source.options, "depends_on": list(source.options["depends_on"])}
        self.depends_on = []


class Builder:
    """Collects the tasks of a flow while its body runs."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.entries = {}

    def add(self, source):
        if source.name in self.entries:
            raise FlowDefinitionError(f"the flow has two tasks named {source.name!r}: give one another name, with_options(name=...)")
        entry = _Entry(source)
        self.entries[source.name] = entry
        return Handle(entry)

    def call(self, task, args, kwargs, over=None):
        handle = self.add(task)
        entry = handle.task
        wanted = task.parameters()
        own = {"ctx", "item", "index"} if over is not None else {"ctx"}
        names = [name for name, kind, _ in wanted if kind != KEYWORD_ONLY and name not in own]
        if len(args) > len(names):
            raise FlowDefinitionError(f"task {task.name!r} takes {len(names)} arguments, {len(args)} are given")
        given = dict(zip(names, args))
        for name, value in kwargs.items():
            if name in given or name not in [w[0] for w in wanted]:
                raise FlowDefinitionError(f"task {task.name!r} {'gets twice' if name in given else 'has no'} argument {name!r}")
            given[name] = value
        for name, value in given.items():
            self._wire(entry, name, value)
        if over is not None:
            entry.options["map_over"] = over
        return handle

    def _wire(self, entry, argument, value):
        if isinstance(value, Handle):
            if argument != value.name.replace("-", "_"):
                raise FlowDefinitionError(
                    f"task {entry.name!r} gets the output of {value.name!r} as {argument!r}; arguments are filled by name: "
                    f"rename the argument to {value.name.replace('-', '_')!r}, or the task with with_options(name={argument!r})"
                )
            entry.depends_on.append(value.name)
        elif isinstance(value, Parameter):
            if argument != value.name:
                raise FlowDefinitionError(
                    f"task {entry.name!r} gets the parameter {value.name!r} as {argument!r}; arguments are filled by name: "
                    f"rename the argument to {value.name!r}, or the parameter to {argument!r}"
                )
        else:
            raise FlowDefinitionError(
                f"task {entry.name!r} gets a fixed value as {argument!r}: make it the argument's default, or a parameter of the flow"
            )

    def finish(self):
        """Resolve and check what the tasks depend on."""
        self._depend()
        for entry in self.entries.values():
            for key in ("condition", "map_over", "config"):
                entry.options[key] = self._plain(entry, entry.options[key], key != "config")
            entry.depends_on = list(dict.fromkeys(entry.depends_on))
        self._check_cycle()
        for entry in self.entries.values():
            self._check_arguments(entry)

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

    def _plain(self, entry, value, expression):
        """Return an option as JSON: placeholders as expressions, their tasks as dependencies."""
        if isinstance(value, _Placeholder):
            if isinstance(value, Handle):
                entry.depends_on.append(value.name)
            return value.expression if expression else str(value)
        if isinstance(value, dict):
            return {key: self._plain(entry, item, False) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            if expression:
                return json.dumps([self._plain(entry, item, False) for item in value], allow_nan=False)
            return [self._plain(entry, item, False) for item in value]
        if isinstance(value, str):
            for match in _REFERENCE.finditer(value):
                name = match.group(1) or match.group(2)
                if name in self.entries and name != entry.name:
                    entry.depends_on.append(name)
        return value

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
        known = {"ctx", *self.parameters, *(name.replace("-", "_") for name in entry.depends_on), *entry.depends_on}
        if entry.options["map_over"] is not None:
            known |= {"item", "index"}
        for name, _, has_default in entry.source.parameters():
            if has_default or name in known:
                continue
            hint = ""
            if name in self.entries:
                hint = f": pass the output of {name!r} to it, or name it in depends_on"
            elif name in ("item", "index"):
                hint = f": use {entry.name}.map(...)"
            raise FlowDefinitionError(f"task {entry.name!r} needs the argument {name!r}, which no upstream task and no parameter gives{hint}")


def task_spec(entry):
    """Return one task as the service takes it."""
    spec = {"name": entry.name, "type": entry.type}
    if entry.type == "python":
        spec["entrypoint"] = entry.source.entrypoint
        names = sorted({*entry.options["secrets"], *_secrets.named(_arguments.plain(entry.source))})
        entry.options["config"] = _secrets.config(entry.options["config"], names)
    if entry.depends_on:
        spec["depends_on"] = entry.depends_on
    for key in ("retries", "retry_backoff", "timeout_secs", "trigger_rule", "condition", "map_over", "config"):
        if entry.options[key] is not None:
            spec[key] = entry.options[key]
    return spec


class Flow:
    """A flow. ``spec()`` gives what the service registers; calling it runs it here."""

    def __init__(self, function, name=None, version="1", parameters=None, timeout_secs=None, on_failure=None):
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.name = name or function.__name__
        self.version = str(version)
        self.timeout_secs = timeout_secs
        self.on_failure = on_failure
        self.parameters = parameters or _schema(function)
        self._built = None

    def build(self):
        """Return the Builder of the flow's tasks, made once."""
        if self._built is None:
            names = list(self.parameters.get("properties", {}))
            builder = Builder(names)
            arguments = {name: Parameter(name) for name in _parameter_names(self.function)}
            if missing := set(arguments) - set(names):
                raise FlowDefinitionError(f"parameters= does not describe {', '.join(sorted(missing))}")
            tasks._building.append(builder)
            try:
                self.function(**arguments)
            finally:
                tasks._building.pop()
            builder.finish()
            if not builder.entries:
                raise FlowDefinitionError(f"the flow {self.name!r} has no task")
            self._built = builder
        return self._built

    def failure_entry(self):
        """Return the entry of on_failure, or None."""
        if self.on_failure is None:
            return None
        source = self.on_failure
        if not hasattr(source, "options"):
            raise FlowDefinitionError("on_failure is a task, or one made by millrace.http and the like")
        return _Entry(source)

    def spec(self):
        """Return the flow_spec as a dict."""
        builder = self.build()
        spec = {"parameters": self.parameters}
        if self.timeout_secs is not None:
            spec["timeout_secs"] = self.timeout_secs
        spec["tasks"] = [task_spec(entry) for entry in builder.entries.values()]
        if entry := self.failure_entry():
            spec["on_failure"] = task_spec(entry)
        return spec

    def to_json(self, indent=2):
        """Return the flow_spec as JSON text."""
        return json.dumps(self.spec(), indent=indent, ensure_ascii=False, allow_nan=False)

    def run(self, **parameters):
        """Run the flow on this machine and return a RunResult.

        Raises the error of the first task that failed: TaskFailedError,
        TaskTimeoutError or ArtifactSerializationError.
        """
        if tasks.building() is not None:
            raise FlowDefinitionError(f"the flow {self.name!r} is called in the body of another one")
        from ._local import run

        return run(self, parameters)

    __call__ = run

    def __repr__(self):
        return f"<flow {self.name}>"


def flow(function=None, *, name=None, version="1", parameters=None, timeout_secs=None, on_failure=None):
    """Make a function a flow: its body calls tasks, its arguments are the run's parameters.

    parameters: JSON Schema of the parameters; made from the annotations and
    defaults if absent. timeout_secs: of a whole run. on_failure: a task that runs
    when a run fails.
    """
    def decorate(function):
        return Flow(function, name, version, parameters, timeout_secs, on_failure)

    return decorate if function is None else decorate(function)


def _parameter_names(function):
    from ._arguments import parameters

    return [name for name, _, _ in parameters(function)]


def _schema(function):
    import inspect
    import typing

    try:
        hints = typing.get_type_hints(function)
    except Exception:
        hints = {}
    properties, required = {}, []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        schema = _type_schema(hints.get(parameter.name))
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        else:
            schema["default"] = parameter.default
        properties[parameter.name] = schema
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return schema


def _type_schema(hint):
    import types
    import typing

    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union or origin is getattr(types, "UnionType", None):
        kinds = [_type_schema(a).get("type") for a in arguments]
        return {"type": kinds} if all(isinstance(k, str) for k in kinds) else {}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is list and arguments:
        return {"type": "array", "items": _type_schema(arguments[0])}
    kind = _JSON_TYPES.get(origin or hint) if isinstance(origin or hint, type) else None
    return {"type": kind} if kind else {}
