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

__all__ = [
    "ArtifactSerializationError", "Context", "DependencyCycleError", "ExpressionError", "Flow", "FlowDefinitionError",
    "MillraceError", "Task", "TaskFailedError", "TaskTimeoutError", "flow", "http", "node",
    "task", "transform", "wait",
]

# The runner imports this package for every cold start and needs none of the
# authoring side: its names are loaded when first asked for.
_LAZY = {
    "Context": "_context", "Flow": "flows", "flow": "flows", "Task": "tasks", "task": "tasks",
    "http": "nodes", "node": "nodes", "transform": "nodes", "wait": "nodes",
}


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'millrace' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module("." + _LAZY[name], __name__), name)
    globals()[name] = value
    return value
