"""Tasks that tests define inside of functions, as if they stood in the module."""

import millrace


def task(function=None, **options):
    """``millrace.task`` of a function whose name does not tell that it is a local one."""

    def decorate(function):
        function.__qualname__ = function.__name__
        return millrace.task(**options)(function)

    return decorate if function is None else decorate(function)
