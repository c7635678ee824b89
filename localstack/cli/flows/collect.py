"""Prints the flows of Python files and makes the zip of their code.

Called with the zip to make, a file for the answer, and the files, which all belong to
one folder. The answer is JSON, apart from what the files print:
{"root", "files", "flows": [{"name", "spec"}]}, or {"error"}.
"""

import importlib
import json
import os
import sys
import traceback


def root_of(file):
    """The folder that a file's package is imported from."""
    folder = os.path.dirname(os.path.abspath(file))
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder = os.path.dirname(folder)
    return folder


def flows_of(files):
    from millrace.flows import Flow

    found = {}
    for file in files:
        path = os.path.abspath(file)
        module = os.path.splitext(os.path.relpath(path, root_of(file)))[0].replace(os.sep, ".")
        for value in vars(importlib.import_module(module)).values():
            if isinstance(value, Flow):
                found.setdefault(value.name, value)
    return found


def main(archive, files):
    from millrace._pack import pack
    from millrace.errors import MillraceError

    root = root_of(files[0])
    sys.path.insert(0, root)
    try:
        flows = [{"name": name, "spec": json.loads(flow.to_json())} for name, flow in flows_of(files).items()]
        return {"root": root, "flows": flows, "files": pack(root, archive).files if flows else 0}
    except MillraceError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(root + os.sep)]
        where = f"{os.path.relpath(frames[-1].filename, root)}:{frames[-1].lineno}: " if frames else ""
        return {"error": f"{where}{type(error).__name__}: {error}"}


archive, answer, *files = sys.argv[1:]
collected = main(archive, files)
with open(answer, "w", encoding="utf-8") as out:
    json.dump(collected, out)
