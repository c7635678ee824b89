"""Files between tasks: a reference as JSON, and where its bytes are."""

import os

from .errors import TaskFailedError

# What is in the JSON of every value that has references to files.
MARK = b'"$file"'
# Names of files are kept, as far as they are plain.
_MAX_NAME = 200

# How this process stores and finds files, set by the runner or by a local run:
# store(path, name) returns a key; fetch(key, name) returns where the file is now.
store = fetch = None


class File:
    """A file that a task passed on: created by ``ctx.save_file``, opened by any later task.

    name: its file name; size: bytes. ``open(file)`` and everything that accepts
    a path accept it. It is read-only: another task may open the same one.
    """

    __slots__ = ("name", "size", "key", "_path")

    def __init__(self, key: str, name: str, size: int):
        self.key, self.name, self.size = key, name, size
        self._path: "str | None" = None

    @classmethod
    def from_json(cls, value) -> "File":
        """Return the File that a reference stands for; ValueError if it is none."""
        given = value.get("$file") if isinstance(value, dict) else None
        if not isinstance(given, dict) or not all(isinstance(given.get(k), str) for k in ("key", "name")):
            raise ValueError("it is no reference to a file")
        size = given.get("size")
        return cls(given["key"], given["name"], size if isinstance(size, int) else 0)

    def __millrace_json__(self):
        return {"$file": {"key": self.key, "name": self.name, "size": self.size}}

    @property
    def path(self) -> str:
        """Where the file is on this machine; it is fetched when this is first asked for."""
        if self._path is None or not os.path.exists(self._path):
            if fetch is None:
                raise TaskFailedError(f"the file {self.name!r} can only be opened by a task")
            self._path = fetch(self.key, self.name)
        return self._path

    def open(self, mode: str = "r", **options):
        """Open the file for reading; options are those of the builtin open."""
        if set(mode) & set("wax+"):
            raise ValueError("files of tasks are read-only: write another one and save that")
        return open(self.path, mode, **options)

    def read_bytes(self) -> bytes:
        """Return the file's bytes."""
        with self.open("rb") as file:
            return file.read()

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return the file's text."""
        with self.open(encoding=encoding) as file:
            return file.read()

    def __fspath__(self) -> str:
        return self.path

    def __eq__(self, other):
        return isinstance(other, File) and self.key == other.key

    def __hash__(self):
        return hash(self.key)

    def __repr__(self):
        return f"<file {self.name}, {self.size} bytes>"


def save(path, name=None) -> File:
    """Store the file at path and return the File that refers to it; see Context.save_file."""
    path = os.fspath(path)
    name = os.path.basename(name or path)
    if not name or len(name.encode()) > _MAX_NAME or any(c < " " or c in '/\\\x7f' for c in name) or name in (".", ".."):
        raise TaskFailedError(f"{name!r} is no name of a file: plain text without / and \\, at most {_MAX_NAME} bytes")
    if not os.path.isfile(path):
        raise TaskFailedError(f"there is no file {path!r} to save")
    if store is None:
        raise TaskFailedError("files can only be saved by a task")
    return File(store(path, name), name, os.path.getsize(path))
