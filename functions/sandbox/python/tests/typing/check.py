"""Compares what pyright says of flows.py with its marks: check.py PYRIGHT."""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main(pyright):
    out = subprocess.run([pyright, "--outputjson", "-p", HERE], capture_output=True, text=True).stdout
    said = {}
    for fault in json.loads(out)["generalDiagnostics"]:
        if fault["severity"] == "error":
            said.setdefault((os.path.basename(fault["file"]), fault["range"]["start"]["line"] + 1), fault["message"])
    with open(os.path.join(HERE, "flows.py"), encoding="utf-8") as file:
        marked = {("flows.py", number) for number, line in enumerate(file, 1) if line.rstrip().endswith("# error")}
    wrong = [f"{file}:{line}: {said[file, line]}" for file, line in sorted(set(said) - marked)]
    wrong += [f"{file}:{line}: no error where one must be" for file, line in sorted(marked - set(said))]
    print("\n".join(wrong) or f"{len(marked)} mistakes are errors, nothing else is")
    return bool(wrong) or not marked


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
