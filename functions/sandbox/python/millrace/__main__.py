"""Command line: python -m millrace spec|run|pack."""

import argparse
import json
import os
import sys


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m millrace", description="Flows on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    spec = commands.add_parser("spec", help="print the flow_spec that the service registers")
    spec.add_argument("flow", help="flow.py or flow.py:name")
    run = commands.add_parser("run", help="run a flow on this machine")
    run.add_argument("flow", help="flow.py or flow.py:name")
    run.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="a run parameter; the value is JSON, or else text")
    pack = commands.add_parser("pack", help="make the artifact zip of a directory")
    pack.add_argument("directory")
    pack.add_argument("-o", "--output", default="artifact.zip")
    options = parser.parse_args(arguments)
    from .errors import MillraceError

    try:
        if options.command == "spec":
            print(load(options.flow).to_json())
        elif options.command == "run":
            flow = load(options.flow)
            result = flow.run(**dict(_parameter(flow, text) for text in options.param))
            print(json.dumps({"run_id": result.run_id, "status": result.status, "outputs": result.outputs}, indent=2, ensure_ascii=False))
        else:
            from ._pack import pack as make

            print(f"{options.output}: {make(options.directory, options.output)} files")
    except (MillraceError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def load(target):
    """Import flow.py[:name] and return its flow."""
    import importlib

    from .errors import FlowDefinitionError
    from .flows import Flow

    path, _, name = target.partition(":")
    directory, file = os.path.split(os.path.abspath(path))
    if not os.path.isfile(path):
        raise FlowDefinitionError(f"there is no file {path!r}")
    sys.path.insert(0, directory)
    module = importlib.import_module(os.path.splitext(file)[0])
    flows = {key: value for key, value in vars(module).items() if isinstance(value, Flow)}
    if name:
        found = [f for key, f in flows.items() if name in (key, f.name)]
    else:
        found = list(flows.values())
    if len(found) != 1:
        known = ", ".join(sorted(flows)) or "none"
        raise FlowDefinitionError(f"{path} has {'no flow' if not found else 'several flows'} {name!r}: name one of: {known}")
    return found[0]


def _parameter(flow, text):
    from .errors import FlowDefinitionError

    name, equals, value = text.partition("=")
    if not equals:
        raise FlowDefinitionError(f"--param takes NAME=VALUE, not {text!r}")
    if flow.parameters.get("properties", {}).get(name, {}).get("type") == "string":
        return name, value  # "2026" stays text for a text parameter
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


if __name__ == "__main__":
    sys.exit(main())
