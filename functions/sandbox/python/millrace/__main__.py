"""Command line: python -m millrace spec|run|pack."""

import argparse
import json
import os
import sys


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m millrace", description="Flows on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    named = "flow.py, flow.py:name or package.module:name"
    spec = commands.add_parser("spec", help="print the flow_spec that the service registers")
    spec.add_argument("flow", help=named)
    spec.add_argument("-o", "--output", metavar="FILE", help="write it to a file instead")
    run = commands.add_parser("run", help="run a flow on this machine")
    run.add_argument("flow", help=named)
    run.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="a run parameter; the value is JSON, or else text")
    run.add_argument("--params", metavar="FILE", help="run parameters, a JSON object; - for standard input")
    pack = commands.add_parser("pack", help="make the artifact zip of a directory")
    pack.add_argument("directory", help="the directory that modules are imported from, or a flow.py in it or in a package of it")
    pack.add_argument("-o", "--output", default="artifact.zip")
    pack.add_argument("--platform", metavar="OS/ARCH", help="what runs the tasks, linux/arm64 for instance; default: this machine")
    pack.add_argument("--python-version", metavar="X.Y", help="the Python that runs the tasks; default: this one")
    options = parser.parse_args(arguments)
    from .errors import MillraceError, TaskTimeoutError

    try:
        if options.command == "spec":
            _spec(options)
        elif options.command == "run":
            _run(options)
        else:
            from . import _modules
            from ._pack import pack as make

            directory = _modules.locate(options.directory)[0] if os.path.isfile(options.directory) else options.directory
            packed = make(directory, options.output, options.platform, options.python_version)
            print(json.dumps(packed.as_dict()))
    except (MillraceError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 3 if isinstance(error, TaskTimeoutError) else 1  # 3: the run is TIMED_OUT
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


def _spec(options):
    from ._load import load, quiet_stdout

    with quiet_stdout():
        text = load(options.flow).to_json() + "\n"
    if options.output is None:
        sys.stdout.write(text)
        return
    # Whole or not at all.
    with open(options.output + ".part", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(options.output + ".part", options.output)


def _run(options):
    from ._load import load

    flow = load(options.flow)
    _stop_tasks_at_signals()
    given = _parameters(options.params) if options.params else {}
    result = flow.run(**{**given, **dict(_parameter(flow, text) for text in options.param)})
    made = {"run_id": result.run_id, "status": result.status, "result": result.result, "outputs": result.outputs}
    print(json.dumps(made, indent=2, ensure_ascii=False))


def _stop_tasks_at_signals():
    """Let SIGINT and SIGTERM stop the run's tasks, each a process group of its own. The next signals must not interrupt that:
    on a terminal an interrupt also comes from the command line that started this process."""
    import signal

    both = (signal.SIGINT, signal.SIGTERM)

    def stop(*_):
        for number in both:
            signal.signal(number, lambda *_: None)  # SIG_IGN would report a signal that has just come
        raise KeyboardInterrupt

    for number in both:
        signal.signal(number, stop)


def _parameters(path):
    from .errors import FlowDefinitionError

    try:
        with open(0 if path == "-" else path, encoding="utf-8") as file:
            given = json.load(file)
    except ValueError as error:
        raise FlowDefinitionError(f"--params {path} is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise FlowDefinitionError(f"--params {path} is no JSON object")
    return given


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
