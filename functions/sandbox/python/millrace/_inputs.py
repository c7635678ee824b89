"""Converts options, arguments and results of tasks to JSON and expressions."""

import json
import re

from . import _cel, _values
from ._placeholders import Handle, Parameter, Placeholder, quoted, reference
from .errors import ArtifactSerializationError, ExpressionError, FlowDefinitionError

_TASKS = re.compile(r"""\btasks(?:\.([A-Za-z]\w*)|\[\s*["']([^"']+)["']\s*\])""")


class Reader:
    """Reads the arguments of one task, or the flow's result.

    ``tasks`` collects the names of the tasks whose output is read; entries are the
    flow's, by name.
    """

    def __init__(self, entries, own=""):
        self.entries, self.own, self.tasks = entries, own, []

    def template(self, value, where):
        """Convert a value to JSON, with "${{ … }}" for its placeholders."""
        value = self._rendered(value, where)
        try:
            # The service stores a flow_spec with sorted keys: so do local runs.
            return json.loads(json.dumps(json.loads(_values.encode(value, where)), sort_keys=True))
        except ArtifactSerializationError as error:
            raise FlowDefinitionError(str(error)) from None

    def _rendered(self, value, where):
        if isinstance(value, Placeholder):
            self.tasks.extend(value.tasks)
            return str(value)
        if isinstance(value, dict):
            return {key: self._rendered(item, where) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._rendered(item, where) for item in value]
        if isinstance(value, str):
            for expression in _cel.expressions(value):
                self.expression(expression, where)
        return value

    def expression(self, text, where):
        """Check an expression and record the tasks that it reads; return it."""
        try:
            _cel.check(text)
        except ExpressionError as error:
            raise FlowDefinitionError(f"{where}: {error}") from None
        for match in _TASKS.finditer(_cel.without_text(text)):
            name = match.group(1) or match.group(2)
            if name not in self.entries and name != self.own:
                raise FlowDefinitionError(f"{where} reads {name!r} in {text!r}, which is no task of the flow")
            if name != self.own:
                self.tasks.append(name)
        return text

    def literal(self, value, where):
        """Convert a value that contains placeholders to one expression."""
        if isinstance(value, Placeholder):
            self.tasks.extend(value.tasks)
            return value.expression
        if isinstance(value, dict):
            return "{" + ", ".join(f"{quoted(key)}: {self.literal(item, where)}" for key, item in value.items()) + "}"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(self.literal(item, where) for item in value) + "]"
        if isinstance(value, str):
            return self._interpolation(value, where)
        return json.dumps(self.template(value, where), ensure_ascii=False)

    def result(self, value, where):
        """Return the result of a flow: an expression, or JSON that contains "${{ … }}"."""
        return self.literal(value, where) if isinstance(value, (str, Placeholder)) else self.template(value, where)

    def _interpolation(self, text, where):
        parts = _cel.parts(text)
        for part, is_expression in parts:
            if is_expression:
                self.expression(part, where)
        if len(parts) == 1:
            return parts[0][0] if parts[0][1] else quoted(text)
        return " + ".join(f"string({part})" if is_expression else quoted(part) for part, is_expression in parts) or '""'

    def inputs(self, entry, parameters):
        """Return the entry's inputs {argument: constant or expression}; None if all are filled by name."""
        direct = {name.replace("-", "_"): name for name in entry.depends_on}
        given = entry.given
        if all(_by_name(argument, value, direct) for argument, value in given.items()):
            return None
        where = f"task {entry.name!r}"
        made = {}
        for name, _, _ in entry.source.parameters():
            if name in given:
                made[name] = self.template(given[name], f"{where}: the argument {name}")
            elif name in entry.special:
                continue
            elif name in direct:
                made[name] = "${{ " + reference(direct[name]) + " }}"
            elif name in parameters:
                made[name] = str(Parameter(name))
        return made


def _by_name(argument, value, direct):
    if isinstance(value, Handle):
        return argument == value.name.replace("-", "_")
    # An upstream task of that name would take precedence over the parameter.
    return isinstance(value, Parameter) and argument == value.name and argument not in direct
