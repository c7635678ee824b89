"""Prints the flows of Python files and makes the zip of their code.

Reads one line of JSON on stdin, {"archive", "answer", "at", "files", "platform",
"python_version"}: the zip to make (null for none), a file for the answer, one that says
where it is, the files, which all belong to one folder, and what the packages of
requirements.txt are for (null: this machine). It is started before there is one, so that
its own imports are done. Where it is: "requirements.txt", or "flow.py:3", the user's line
that is being executed.
The answer is JSON, apart from what the files print:
{"root", "files", "flows": [{"name", "file", "line", "spec", "lines"}]}, lines being those
of the tasks in the spec, or {"error"} with file and line where they are known.
"""

import sys

sys.path[:] = [folder for folder in sys.path if folder]  # a json.py of the user's would be imported below

import inspect
import json
import os
import signal
import threading
import time
import traceback

from millrace import _load, _modules, _requirements
from millrace._pack import pack
from millrace.errors import FlowDefinitionError
from millrace.flows import Flow


class Place:
    """Tells in a file where the main thread is."""

    def __init__(self, file, root):
        self._file, self._root, self._main = file, root, threading.get_ident()
        self._lock, self._fixed = threading.Lock(), True
        self.is_at("requirements.txt")
        threading.Thread(target=self._follow, daemon=True).start()

    def is_at(self, text):
        """Tell that it is at something without lines."""
        with self._lock:
            self._fixed = True
            self._write(text)

    def imports(self, file):
        """Tell that it imports a file, and from then on the line."""
        with self._lock:
            self._fixed = False
            self._write(os.path.relpath(os.path.abspath(file), self._root))

    def _follow(self):
        while True:
            time.sleep(1)
            frame = sys._current_frames().get(self._main)
            while frame and not frame.f_code.co_filename.startswith(self._root + os.sep):
                frame = frame.f_back
            with self._lock:
                if frame and not self._fixed:
                    self._write(f"{os.path.relpath(frame.f_code.co_filename, self._root)}:{frame.f_lineno}")

    def _write(self, text):
        try:
            with open(self._file + ".new", "w", encoding="utf-8") as out:
                out.write(text)
            os.replace(self._file + ".new", self._file)
        except OSError:  # the folder is removed: nobody asks any more
            pass


def flows_of(files, root, here):
    found = {}
    for file in files:
        here.imports(file)
        for value in vars(_load.imported(file)).values():
            if isinstance(value, Flow) and not same(found.setdefault(value.name, value), value, root):
                (first, first_line), (second, line) = place(found[value.name].function, root), place(value.function, root)
                error = FlowDefinitionError(f"two flows are named {value.name!r}, the other one is at {first}:{first_line}: give one another name, @flow(name=...)")
                error.place = f"{second}:{line}: "
                raise error
    return found


def same(flow, other, root):
    """Whether two objects are one flow, which is imported by two names if a script and a package import its file."""
    if flow is other:
        return True
    return flow.__module__ != other.__module__ and place(flow.function, root) == place(other.function, root)


def place(function, root):
    """The file and line of a function, ("", 0) where they are not known."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or not code.co_filename.startswith(root + os.sep):
        return "", 0
    return os.path.relpath(code.co_filename, root), code.co_firstlineno


def described(flow, root):
    """What the answer says of a flow. Errors without a line of the user's get the flow's."""
    file, line = place(flow.function, root)
    try:
        spec = json.loads(flow.to_json())
    except Exception as error:
        if not where(error, root) and file:
            error.place = f"{file}:{line}: "
        raise
    entries = flow.build().entries.values()
    lines = [place(getattr(entry.source, "__millrace_function__", flow.function), root) for entry in entries]
    return {"name": flow.name, "file": file, "line": line, "spec": spec, "lines": [f"{f}:{n}" if f else "" for f, n in lines]}


def where(error, root):
    """The user's file and line that an error is of: "flow.py:3: "."""
    if isinstance(error, SyntaxError) and (error.filename or "").startswith(root + os.sep):
        return f"{os.path.relpath(error.filename, root)}:{error.lineno}: "
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(root + os.sep)]
    if frames:
        return f"{os.path.relpath(frames[-1].filename, root)}:{frames[-1].lineno}: "
    return getattr(error, "place", "")


def for_this_machine(root):
    """The packages for the import alone, None if not all have a wheel for this machine:
    the import tells what it lacks."""
    try:
        return _requirements.install(root)[0]
    except _requirements.RequirementsError:
        return None


def main(archive, files, platform, python_version, at):
    root = _modules.locate(files[0])[0]
    here = Place(at, root)
    sys.path.insert(0, root)
    if (platform, python_version) == (_requirements.this_platform(), _requirements.this_python()):
        platform = python_version = None
    try:
        # What requirements.txt names need not be installed here: the zip brings it.
        packages = _requirements.install(root, platform, python_version)[0]
        if packages and platform is not None:
            packages = for_this_machine(root)
        if packages:
            sys.path.insert(1, packages)
        flows = [described(flow, root) for flow in flows_of(files, root, here).values()]
        here.is_at("")
        return {"root": root, "flows": flows, "files": pack(root, archive, platform, python_version).files if flows and archive else 0}
    except Exception as error:
        message = error.msg if isinstance(error, SyntaxError) else error
        return {"error": f"{where(error, root)}{type(error).__name__}: {message}"}
    except SystemExit as error:
        return {"error": f'{where(error, root)}the file exits ({error.code}) when it is imported: put what runs it below if __name__ == "__main__":'}


signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # without a traceback: the command says that it was interrupted
if request := sys.stdin.readline():
    asked = json.loads(request)
    collected = main(asked["archive"], asked["files"], asked["platform"], asked["python_version"], asked["at"])
    with open(asked["answer"], "w", encoding="utf-8") as out:
        json.dump(collected, out)
