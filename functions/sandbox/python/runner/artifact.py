"""Unpacks an artifact. It enforces the same rules as the service."""

import os
import stat
import zipfile

MAX_BYTES = 1 << 30
MAX_RATIO = 100
FREE_BYTES = 1 << 20
MAX_FILES = 50_000


class RefusedError(Exception):
    """The artifact violates a rule, which the message names."""


def extract(path, directory):
    """Extract the zip at path into directory, which exists; RefusedError if it violates a rule.

    Limits of sizes apply to the bytes written, whatever the zip's headers say.
    """
    left = min(MAX_BYTES, max(FREE_BYTES, os.path.getsize(path) * MAX_RATIO))
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            names = _check(entries, left)
            for entry, name in zip(entries, names):
                target = os.path.join(directory, *name.split("/"))
                if entry.is_dir():
                    os.makedirs(target, exist_ok=True)
                    continue
                os.makedirs(os.path.dirname(target), exist_ok=True)
                left -= _write(archive, entry, target, left)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, ValueError) as error:
        raise RefusedError(f"the artifact is refused: it is not a readable zip file ({error})") from None


def _check(entries, limit):
    if len(entries) > MAX_FILES:
        raise _refused(f"it holds {len(entries)} files, the limit is {MAX_FILES}")
    names, directories = [], {}
    total = 0
    for entry in entries:
        # ZipInfo truncates names at NUL and converts os.sep; the rules apply to the names in the zip.
        name = entry.orig_filename
        parts = [p for p in name.split("/") if p not in ("", ".")]
        mode = entry.external_attr >> 16
        if not parts or any(c < " " or c == "\x7f" for c in name) or "\\" in name:
            raise _refused(f"the name {name!r} is not plain text")
        if name.startswith("/") or name[1:2] == ":":
            raise _refused(f"{name!r} is an absolute name")
        if ".." in parts:
            raise _refused(f"{name!r} leads out of it")
        if stat.S_ISLNK(mode):
            raise _refused(f"{name!r} is a symbolic link")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _refused(f"{name!r} is neither a file nor a directory")
        if entry.flag_bits & 1:
            raise _refused(f"{name!r} is encrypted")
        clean = "/".join(parts)
        if clean in directories:
            raise _refused(f"{name!r} is in it twice")
        directories[clean] = entry.is_dir()
        names.append(clean)
        total += entry.file_size
    if total > limit:
        raise _refused(f"it expands to more than 1 GB or more than {MAX_RATIO} times")
    for name in names:
        while "/" in name:
            name = name.rpartition("/")[0]
            if directories.get(name) is False:
                raise _refused(f"{name!r} is both a file and a directory")
    return names


def _write(archive, entry, target, left):
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    mode = 0o755 if entry.external_attr >> 16 & 0o111 else 0o644
    done = 0
    with archive.open(entry) as source, os.fdopen(os.open(target, flags, mode), "wb") as file:
        while chunk := source.read(1 << 20):
            done += len(chunk)
            if done > left:
                raise _refused(f"it expands to more than 1 GB or more than {MAX_RATIO} times")
            file.write(chunk)
    return done


def _refused(why):
    return RefusedError("the artifact is refused: " + why)
