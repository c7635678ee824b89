"""Files that tasks pass on: text, bytes, one for each instance of a map, one within a list.

    python flow.py
"""

import gzip
import hashlib
import os
import tempfile
import zipfile

from millrace import File, flow, task

SCRATCH = tempfile.gettempdir


@task
def download():
    return [{"name": "a.txt", "text": "first\n"}, {"name": "b ü.txt", "text": "zwei\n" * 1000}]


@task
def store(ctx, item) -> File:
    """Save a file in each instance; all may have the same name."""
    path = os.path.join(SCRATCH(), "part")
    with open(path, "w", encoding="utf-8") as file:
        file.write(item["text"])
    return ctx.save_file(path, item["name"])


@task
def bundle(ctx, stored: list[File]):
    """Open all files, by name and by path, and pass on a file of another type."""
    path = os.path.join(SCRATCH(), "all.zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in stored:
            archive.write(file.path, file.name, zipfile.ZIP_DEFLATED)
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in stored}
    return {"archive": ctx.save_file(path), "sums": sums, "sizes": [file.size for file in stored]}


@task
def check(archive: File, sums):
    """Check that the file is read-only and the same for every task."""
    with zipfile.ZipFile(archive) as opened:
        found = {name: hashlib.sha256(opened.read(name)).hexdigest()[:16] for name in opened.namelist()}
    try:
        archive.open("w")
    except ValueError as error:
        print("not writable:", error)
    return found == sums


@task
def compress(ctx, first: File):
    path = os.path.join(SCRATCH(), "a.txt.gz")
    with gzip.GzipFile(path, "wb", mtime=0) as out:
        out.write(first.read_bytes())
    return [ctx.save_file(path)]


@task
def read(files: list[File]):
    with gzip.open(files[0].path, "rt", encoding="utf-8") as file:
        return file.read()


@flow
def archive():
    stored = store.map(download())
    bundled = bundle(stored)
    packed = compress(stored[0])
    return {"same": check(bundled["archive"], bundled["sums"]), "sizes": bundled["sizes"], "text": read(packed)}


if __name__ == "__main__":
    print(archive().result)
