"""What stands for a value in a flow's body: it exists only when the flow runs."""

import re

from .errors import FlowDefinitionError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A field of these names needs brackets: CEL reserves them.
_RESERVED = frozenset(
    "as break const continue else false for function if import in let loop package namespace null return true var void while".split()
)


class Placeholder:
    """Stands for a value. ``expression`` is the value in CEL, ``tasks`` are the tasks whose output it reads.

    ``value[key]`` is a field or an element of it.
    """

    def __init__(self, expression, tasks=()):
        self.expression = expression
        self.tasks = tasks

    def __getitem__(self, key):
        if isinstance(key, str):
            plain = _NAME.fullmatch(key) and key not in _RESERVED
            return Placeholder(f"{self.expression}.{key}" if plain else f"{self.expression}[{quoted(key)}]", self.tasks)
        if isinstance(key, int) and not isinstance(key, bool) and key >= 0:
            return Placeholder(f"{self.expression}[{key}]", self.tasks)
        if isinstance(key, Placeholder):
            return Placeholder(f"{self.expression}[{key.expression}]", (*self.tasks, *key.tasks))
        raise FlowDefinitionError(f"{self!r} takes the name of a field or an index from 0, not {key!r}")

    def __str__(self):
        return "${{ " + self.expression + " }}"

    def __format__(self, _spec):
        return str(self)

    def _refuse(self, *_args):
        raise FlowDefinitionError(
            f"{self!r} has no value while the flow is put together: use it in a task, or in an expression, "
            f'such as condition="{self.expression} > 0" or an argument "${{{{ size({self.expression}) }}}}"'
        )

    __bool__ = __iter__ = __len__ = __contains__ = __int__ = __float__ = __index__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __neg__ = _refuse
    __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = _refuse
    __hash__ = object.__hash__

    def __repr__(self):
        return f"<{self.expression}>"


class Parameter(Placeholder):
    """A run parameter in a flow's body."""

    def __init__(self, name):
        super().__init__("params." + name)
        self.name = name

    def __repr__(self):
        return f"<parameter {self.name}>"


class Handle(Placeholder):
    """A task in a flow's body; ``output`` is the expression of what it returns."""

    def __init__(self, task):
        super().__init__(reference(task.name), (task.name,))
        self.task = task
        self.name = task.name
        self.output = self.expression

    def after(self, *others):
        """Make the task wait for others, which give it nothing. Returns the handle."""
        self.task.options["depends_on"].extend(others)
        return self

    def __repr__(self):
        return f"<output of {self.name}>"


def reference(name, field="output"):
    """Return the expression of a task's output."""
    return f'tasks["{name}"].{field}' if "-" in name else f"tasks.{name}.{field}"


def quoted(text):
    """Return a text as a literal of CEL."""
    import json

    return json.dumps(text, ensure_ascii=False)
