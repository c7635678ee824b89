"""Tasks: ordinary functions with options."""

import re

from . import _arguments, _secrets
from .errors import FlowDefinitionError

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
TRIGGER_RULES = ("all_success", "all_done", "one_failed", "none_failed")
MAX_TIMEOUT_SECS = 840

# The flow whose body is being read, if any.
_building = []


def building():
    """Return the builder of the flow body that is running now, or None."""
    return _building[-1] if _building else None


def options(depends_on=(), retries=None, retry_backoff=None, timeout_secs=None, trigger_rule=None, condition=None, map_over=None, config=None,
            secrets=()):
    """Check the options that every type of task has; return them as a dict."""
    if isinstance(depends_on, (str, Task)) or hasattr(depends_on, "output") or callable(depends_on):
        depends_on = [depends_on]
    if retries is not None and (isinstance(retries, bool) or not isinstance(retries, int) or retries < 0):
        raise FlowDefinitionError(f"retries is a number from 0, not {retries!r}")
    if timeout_secs is not None and not 0 < timeout_secs <= MAX_TIMEOUT_SECS:
        raise FlowDefinitionError(f"timeout_secs is more than 0 and at most {MAX_TIMEOUT_SECS}, not {timeout_secs!r}")
    if trigger_rule is not None and trigger_rule not in TRIGGER_RULES:
        raise FlowDefinitionError(f"trigger_rule is one of {', '.join(TRIGGER_RULES)}, not {trigger_rule!r}")
    if isinstance(retry_backoff, (int, float)):
        retry_backoff = {"delay_secs": retry_backoff}
    if retry_backoff is not None and set(retry_backoff) - {"delay_secs", "factor", "max_secs"}:
        raise FlowDefinitionError("retry_backoff has delay_secs, factor and max_secs")
    return {
        "depends_on": list(depends_on), "retries": retries, "retry_backoff": retry_backoff, "timeout_secs": timeout_secs,
        "trigger_rule": trigger_rule, "condition": condition, "map_over": map_over, "config": config,
        "secrets": _secrets.checked(secrets),
    }


def check_name(name):
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise FlowDefinitionError(f"{name!r} is no name of a task: letters, digits, _ and -, from a letter, 64 at most")
    return name


class Task:
    """A function that is a task. Called in a flow's body it becomes part of the
    flow; called anywhere else it is the plain function."""

    type = "python"

    def __init__(self, function, name=None, **given):
        self.__millrace_function__ = function
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "task")
        self.__module__ = function.__module__
        self.name = check_name(name or self.__name__)
        self.options = options(**given)

    def __call__(self, *args, **kwargs):
        builder = building()
        if builder is None:
            return self.__millrace_function__(*args, **kwargs)
        return builder.call(self, args, kwargs)

    def map(self, over, *args, **kwargs):
        """Run one instance for each element of a list: a task's output, a parameter,
        a list, or an expression. The function takes ``item``, and ``index`` if it likes."""
        builder = building()
        if builder is None:
            raise FlowDefinitionError(f"{self.name}.map is for the body of a flow")
        return builder.call(self, args, kwargs, over)

    def with_options(self, **changes):
        """Return a copy with other options, another name for instance."""
        name = changes.pop("name", self.name)
        return Task(self.__millrace_function__, name, **{**self.options, **changes})

    @property
    def entrypoint(self):
        """Where the service finds the function: module:function."""
        function = self.__millrace_function__
        module = function.__module__
        if module == "__main__":
            import os
            import sys

            spec = getattr(sys.modules["__main__"], "__spec__", None)
            file = getattr(sys.modules["__main__"], "__file__", None)
            module = spec.name if spec else os.path.splitext(os.path.basename(file or "flow.py"))[0]
        path = function.__qualname__
        if "<" in path:
            raise FlowDefinitionError(f"task {self.name!r} is defined inside a function: the service can only find functions of a module")
        return f"{module}:{path}"

    def parameters(self):
        return _arguments.parameters(self.__millrace_function__)

    def __repr__(self):
        return f"<task {self.name}>"


def task(function=None, *, name=None, depends_on=(), retries=None, retry_backoff=None, timeout_secs=None,
         trigger_rule=None, condition=None, map_over=None, config=None, secrets=()):
    """Make a function a task: ``@task`` or ``@task(retries=2)``.

    Its arguments are filled by their names: the output of an upstream task, a
    run parameter, ``ctx``, and ``item`` and ``index`` when it is mapped.

    name: the function's by default. depends_on: tasks or names that must end
    first. retries: further attempts. retry_backoff: seconds, or {delay_secs,
    factor, max_secs}. timeout_secs: 600 by default, 840 at most. trigger_rule:
    all_success, all_done, one_failed or none_failed. condition: an expression;
    false skips the task. map_over: a list expression. secrets: names of secrets
    that ctx.secret may read, besides those that the function itself names.
    """
    def decorate(function):
        return Task(function, name, depends_on=depends_on, retries=retries, retry_backoff=retry_backoff, timeout_secs=timeout_secs,
                    trigger_rule=trigger_rule, condition=condition, map_over=map_over, config=config, secrets=secrets)

    return decorate if function is None else decorate(function)
