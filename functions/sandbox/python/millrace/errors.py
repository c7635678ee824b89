"""The errors of tasks and flows. The service uses the same names."""


class MillraceError(Exception):
    """Base of every error of this package."""


class TaskFailedError(MillraceError):
    """A task raised an exception, or could not start."""


class TaskTimeoutError(MillraceError):
    """A task exceeded its timeout_secs."""


class ArtifactSerializationError(MillraceError):
    """The return value of a task cannot be encoded as JSON."""


class DependencyCycleError(MillraceError):
    """The tasks of a flow form a cycle; ``cycle`` names them in order."""

    def __init__(self, cycle):
        self.cycle = list(cycle)
        super().__init__("tasks depend on each other in a circle: " + " -> ".join(self.cycle))


class FlowDefinitionError(MillraceError):
    """A flow is invalid: the service would reject it."""


class ExpressionError(MillraceError):
    """An expression cannot be evaluated in a local run."""
