"""The errors of tasks and flows, by the names the service uses for them."""


class MillraceError(Exception):
    """Base of every error of this package."""


class TaskFailedError(MillraceError):
    """A task ended with an exception that nobody caught, or could not start."""


class TaskTimeoutError(MillraceError):
    """A task ran past its timeout_secs."""


class ArtifactSerializationError(MillraceError):
    """What a task returned is not JSON."""


class DependencyCycleError(MillraceError):
    """Tasks depend on each other in a circle; ``cycle`` names them in order."""

    def __init__(self, cycle):
        self.cycle = list(cycle)
        super().__init__("tasks depend on each other in a circle: " + " -> ".join(self.cycle))


class FlowDefinitionError(MillraceError):
    """A flow is put together in a way that the service would refuse."""


class ExpressionError(MillraceError):
    """An expression cannot be evaluated in a local run."""
