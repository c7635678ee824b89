"""The parts of ``typing`` that annotations need, without importing it.

The runner imports the decorators at every cold start; ``typing`` would be a third
of that time. Type checkers take TYPE_CHECKING for true.
"""

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import timedelta
    from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, overload

    P = ParamSpec("P")
    R = TypeVar("R", covariant=True)
    T = TypeVar("T")

    TriggerRule = Literal["all_success", "all_done", "one_failed", "none_failed"]
    Tier = Literal["nano", "micro", "small", "medium", "large", "xlarge"]
    Seconds = float | str | timedelta

    class Signature(Generic[P, R]):
        """Base of objects that have the signature of a function."""

else:
    P = R = None

    def overload(function):
        return function

    class Signature:
        def __class_getitem__(cls, _item):
            return cls
