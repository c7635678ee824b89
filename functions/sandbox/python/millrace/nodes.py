"""Tasks that are not Python: the service runs them itself."""

from __future__ import annotations

from ._types import TYPE_CHECKING
from .tasks import building, check_name, options

if TYPE_CHECKING:
    from ._types import Any, Mapping, Sequence


class Node:
    """A task of a built-in or custom type. ``config`` depends on the type."""

    def __init__(self, name, type, config, **given):
        self.name = check_name(name)
        self.type = type
        self.options = options(config=config, **given)

    def parameters(self):
        return []

    def __repr__(self):
        return f"<{self.type} task {self.name}>"


def node(name: str, type: str, config: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """Add a task of any type to the flow whose body calls this, and return its
    handle. Outside of a flow's body it returns a task for ``on_failure``. Options are
    those of ``task``; ``config`` may contain parameters and outputs anywhere."""
    made = Node(name, type, config or {}, **options)
    builder = building()
    return made if builder is None else builder.add(made)


def http(name: str, url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, json: Any = None, body: str | None = None,
         expected_status: int | Sequence[int] | None = None, **options: Any) -> Any:
    """An HTTP request. Its output has status, headers, body and json; any status
    except 2xx fails, unless expected_status allows it."""
    config = {"method": method, "url": url, "headers": headers, "json": json, "body": body, "expected_status": expected_status}
    return node(name, "http", {key: value for key, value in config.items() if value is not None}, **options)


def transform(name: str, expression: str, **options: Any) -> Any:
    """The value of a CEL expression over params and tasks.<name>.output."""
    return node(name, "transform", {"expression": expression}, **options)


def wait(name: str, seconds: float, **options: Any) -> Any:
    """A pause."""
    return node(name, "wait", {"seconds": seconds}, **options)
