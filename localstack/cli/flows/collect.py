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


def flows_of(files):
    from millrace import _modules
    from millrace.flows import Flow

    found = {}
    for file in files:
        for value in vars(importlib.import_module(_modules.place(file)[1])).values():
            if isinstance(value, Flow):
                found.setdefault(value.name, value)
    return found


def main(archive, files):
    from millrace import _modules, _requirements
    from millrace._pack import pack
    from millrace.errors import MillraceError

    root = _modules.place(files[0])[0]
    sys.path.insert(0, root)
    try:
        # What requirements.txt names need not be installed here: the zip brings it.
        packages, _ = _requirements.install(root, None, None)
        if packages is not None:
            sys.path.insert(1, packages)
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
