"""Tasks that are not Python: the service runs them by itself."""

from .tasks import building, check_name, options


class Node:
    """A task of a built-in or custom type. ``config`` is the type's own."""

    def __init__(self, name, type, config, **given):
        self.name = check_name(name)
        self.type = type
        self.options = options(config=config, **given)

    def parameters(self):
        return []

    def __repr__(self):
        return f"<{self.type} task {self.name}>"


def node(name, type, config=None, **options):
    """Add a task of any type to the flow whose body this is called in, and return
    its handle. Outside of a flow it is a task for ``on_failure``. Options are those
    of ``task``; parameters and outputs may stand anywhere in ``config``."""
    made = Node(name, type, config or {}, **options)
    builder = building()
    return made if builder is None else builder.add(made)


def http(name, url, *, method="GET", headers=None, json=None, body=None, expected_status=None, **options):
    """An HTTP request. Its output has status, headers, body and json; any answer
    but 2xx fails, unless expected_status says otherwise."""
    config = {"method": method, "url": url, "headers": headers, "json": json, "body": body, "expected_status": expected_status}
    return node(name, "http", {key: value for key, value in config.items() if value is not None}, **options)


def transform(name, expression, **options):
    """The value of a CEL expression over params and tasks.<name>.output."""
    return node(name, "transform", {"expression": expression}, **options)


def wait(name, seconds, **options):
    """A pause."""
    return node(name, "wait", {"seconds": seconds}, **options)
