"""Tasks: ordinary functions with options."""

from __future__ import annotations

import re

from . import _arguments, _modules, _secrets
from ._types import TYPE_CHECKING, P, R, Signature, overload
from .errors import FlowDefinitionError

if TYPE_CHECKING:
    from ._context import Context
    from ._types import Any, Callable, Concatenate, Iterable, Mapping, Seconds, Sequence, Tier, TriggerRule

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
TRIGGER_RULES = ("all_success", "all_done", "one_failed", "none_failed")
TIERS = ("nano", "micro", "small", "medium", "large", "xlarge")
# Of the embedded server; registration names the limit of the server that is asked.
MAX_TIMEOUT_SECS = 86_400
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")

# The flow whose body is being read, if any.
_building = []


def building():
    """Return the builder of the flow body that is running now, or None."""
    return _building[-1] if _building else None


def options(depends_on=(), retries=None, retry_backoff=None, timeout_secs=None, trigger_rule=None, condition=None, map_over=None, config=None,
            secrets=(), tier=None, timeout=None):
    """Check the options that every type of task has; return them as a dict."""
    if isinstance(depends_on, (str, Task)) or hasattr(depends_on, "output") or callable(depends_on):
        depends_on = [depends_on]
    if retries is not None and (isinstance(retries, bool) or not isinstance(retries, int) or retries < 0):
        raise FlowDefinitionError(f"retries is a number from 0, not {retries!r}")
    timeout_secs = seconds(timeout, timeout_secs)
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
        "secrets": _secrets.checked(secrets), "tier": check_tier(tier),
    }


def seconds(timeout, timeout_secs=None):
    """Return a time in seconds: a number, a timedelta, or text such as "90s", "1h30m" or "2d"."""
    if timeout is None:
        return timeout_secs
    if timeout_secs is not None:
        raise FlowDefinitionError("timeout and timeout_secs are the same: give one of them")
    if hasattr(timeout, "total_seconds"):
        timeout = timeout.total_seconds()
    elif isinstance(timeout, str):
        match = _DURATION.fullmatch(timeout)
        if not timeout or match is None:
            raise FlowDefinitionError(f'timeout is seconds or a text such as "90s" or "1h30m", not {timeout!r}')
        timeout = sum(float(part) * unit for part, unit in zip(match.groups(), (86_400, 3600, 60, 1)) if part)
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise FlowDefinitionError(f'timeout is seconds or a text such as "90s" or "1h30m", not {timeout!r}')
    return int(timeout) if timeout == int(timeout) else timeout


def check_tier(tier):
    if tier is not None and tier not in TIERS:
        raise FlowDefinitionError(f"tier is one of {', '.join(TIERS)}, not {tier!r}")
    return tier


def check_name(name):
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise FlowDefinitionError(f"{name!r} is no name of a task: letters, digits, _ and -, from a letter, 64 at most")
    return name


class Task(Signature[P, R]):
    """A function that is a task. A call in a flow's body adds it to the flow; any other
    call runs the function."""

    type = "python"

    def __init__(self, function: Callable[..., R], name: str | None = None, **given: Any):
        self.__millrace_function__ = function
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "task")
        self.__module__ = function.__module__
        self.name = check_name(name or self.__name__)
        self.options = options(**given)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        builder = building()
        if builder is None:
            return self.__millrace_function__(*args, **kwargs)
        return builder.call(self, args, kwargs)

    def map(self, over: Iterable[Any] | str, *args: Any, **kwargs: Any) -> list[R]:
        """Run one instance for each element of a list: a task's output, a parameter,
        a list, or an expression. The function has the argument ``item``, and optionally ``index``."""
        builder = building()
        if builder is None:
            raise FlowDefinitionError(f"{self.name}.map is for the body of a flow")
        return builder.call(self, args, kwargs, over)

    def with_options(
        self, *, name: str | None = None, depends_on: Any = None, retries: int | None = None, retry_backoff: Mapping[str, float] | float | None = None,
        timeout: Seconds | None = None, timeout_secs: float | None = None, trigger_rule: TriggerRule | None = None, condition: str | None = None,
        map_over: Any = None, config: Mapping[str, Any] | None = None, secrets: Sequence[str] | None = None, tier: Tier | None = None,
    ) -> Task[P, R]:
        """Return a copy with other options, another name for instance; those not given stay."""
        given = {
            "depends_on": depends_on, "retries": retries, "retry_backoff": retry_backoff, "timeout_secs": seconds(timeout, timeout_secs),
            "trigger_rule": trigger_rule, "condition": condition, "map_over": map_over, "config": config, "secrets": secrets, "tier": tier,
        }
        changes = {key: value for key, value in given.items() if value is not None}
        return Task(self.__millrace_function__, name or self.name, **{**self.options, **changes})

    @property
    def entrypoint(self) -> str:
        """Where the service finds the function: module:function."""
        function = self.__millrace_function__
        path = function.__qualname__
        if "<" in path:
            raise FlowDefinitionError(f"task {self.name!r} is defined inside a function: the service can only find functions of a module")
        return f"{_modules.name_of(function.__module__)}:{path}"

    def parameters(self):
        return _arguments.parameters(self.__millrace_function__)

    def __repr__(self):
        return f"<task {self.name}>"


@overload
def task(function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...
@overload
def task(
    *, name: str | None = None, depends_on: Any = (), retries: int | None = None, retry_backoff: Mapping[str, float] | float | None = None,
    timeout: Seconds | None = None, timeout_secs: float | None = None, trigger_rule: TriggerRule | None = None, condition: str | None = None,
    map_over: Any = None, config: Mapping[str, Any] | None = None, secrets: Sequence[str] = (), tier: Tier | None = None,
) -> Decorator: ...
def task(function=None, *, name=None, depends_on=(), retries=None, retry_backoff=None, timeout=None, timeout_secs=None,
         trigger_rule=None, condition=None, map_over=None, config=None, secrets=(), tier=None):
    """Turn a function into a task: ``@task`` or ``@task(retries=2)``.

    Its arguments are those that the flow's body passes; others are filled by their
    names: the output of an upstream task, a run parameter, ``ctx``,
    and ``item`` and ``index`` when it is mapped.

    name: the function's by default. depends_on: tasks or names that must end
    first. retries: further attempts. retry_backoff: seconds, or {delay_secs,
    factor, max_secs}. timeout: seconds, a timedelta or text such as "2h"; 600 s by
    default, at most 24 h on the embedded server and 840 s on AWS; timeout_secs is
    the same. trigger_rule: all_success, all_done, one_failed or none_failed.
    condition: an expression; false skips the task. map_over: a list expression.
    secrets: names of secrets that ctx.secret may read, besides those that the
    function itself names. tier: the memory, nano (256 MB) to xlarge (8 GB).
    """
    def decorate(function):
        return Task(function, name, depends_on=depends_on, retries=retries, retry_backoff=retry_backoff, timeout=timeout, timeout_secs=timeout_secs,
                    trigger_rule=trigger_rule, condition=condition, map_over=map_over, config=config, secrets=secrets, tier=tier)

    return decorate if function is None else decorate(function)


if TYPE_CHECKING:
    from typing import Protocol

    class Decorator(Protocol):
        """What ``task(...)`` returns."""

        @overload
        def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
        @overload
        def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...
