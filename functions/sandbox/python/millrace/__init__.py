"""Millrace: write a workflow as ordinary Python functions.

    from millrace import flow, task

    @task(retries=2)
    def extract(day): ...

    @task
    def load(extract): ...

    @flow(name="daily")
    def daily(day: str):
        load(extract(day))

    if __name__ == "__main__":
        daily(day="2026-01-31")     # runs here; the service runs the same spec
"""

from .errors import (
    ArtifactSerializationError,
    DependencyCycleError,
    ExpressionError,
    FlowDefinitionError,
    MillraceError,
    TaskFailedError,
    TaskTimeoutError,
)

TYPE_CHECKING = False  # type checkers take it for true

if TYPE_CHECKING:
    from ._context import Context
    from ._files import File
    from ._local import RunResult
    from ._version import __version__
    from .client import AsyncClient, Client
    from .flows import Flow, flow
    from .nodes import http, node, transform, wait
    from .tasks import Task, task

__all__ = [
    "ArtifactSerializationError", "AsyncClient", "Client", "Context", "DependencyCycleError", "ExpressionError", "File", "Flow",
    "FlowDefinitionError", "MillraceError", "RunResult", "Task", "TaskFailedError", "TaskTimeoutError", "flow", "http", "node",
    "task", "transform", "wait",
]

# The runner imports this package for every cold start and needs none of the
# authoring side: its names are loaded when first asked for.
_LAZY = {
    "Context": "_context", "File": "_files", "RunResult": "_local", "Flow": "flows", "flow": "flows", "Task": "tasks", "task": "tasks",
    "http": "nodes", "node": "nodes", "transform": "nodes", "wait": "nodes",
    "AsyncClient": "client", "Client": "client", "__version__": "_version",
}


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'millrace' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module("." + _LAZY[name], __name__), name)
    globals()[name] = value
    return value
