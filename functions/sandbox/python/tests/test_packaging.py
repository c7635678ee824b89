"""The distributions of the package: what they hold, and that they are the same each time."""

import base64
import csv
import email
import hashlib
import io
import os
import shutil
import sys
import tarfile
import tempfile
import unittest
import zipfile
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, "packaging"))

import backend  # noqa: E402
import binary  # noqa: E402

import millrace  # noqa: E402

INFO = f"millrace-{millrace.__version__}.dist-info/"

# The first bytes of executables, as Go's linker writes them.
HEADERS = {
    "linux/amd64": bytes.fromhex("7f454c46020101000000000000000000 02003e0001000000"),
    "linux/arm64": bytes.fromhex("7f454c46020101000000000000000000 0200b70001000000"),
    "darwin/amd64": bytes.fromhex("cffaedfe0700000103000000"),
    "darwin/arm64": bytes.fromhex("cffaedfe0c00000100000000"),
}


class TestDistributions(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="millrace-packaging-")
        self.addCleanup(shutil.rmtree, self.dir)

    def program(self, content):
        path = os.path.join(self.dir, "program")
        with open(path, "wb") as file:
            file.write(content)
        return path

    def read(self, name):
        with open(os.path.join(self.dir, name), "rb") as file:
            return file.read()

    def files(self, name):
        """The files of a wheel, once its RECORD is found to be right."""
        with zipfile.ZipFile(os.path.join(self.dir, name)) as archive:
            files = {n: archive.read(n) for n in archive.namelist()}
            modes = {i.filename: i.external_attr >> 16 for i in archive.infolist()}
        rows = list(csv.reader(io.StringIO(files[INFO + "RECORD"].decode())))
        self.assertEqual({row[0] for row in rows}, set(files))
        for path, digest, size in rows:
            if path != INFO + "RECORD":
                want = base64.urlsafe_b64encode(hashlib.sha256(files[path]).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, int(size)), ("sha256=" + want, len(files[path])), path)
        return files, modes

    def test_pure_wheel_contains_only_package(self):
        name = backend.build_wheel(self.dir)
        self.assertEqual(name, f"millrace-{millrace.__version__}-py3-none-any.whl")
        files, modes = self.files(name)
        self.assertEqual({n.partition("/")[0] for n in files}, {"millrace", INFO.rstrip("/")})
        for path in ("millrace/__init__.py", "millrace/client/__init__.py", "millrace/py.typed", INFO + "entry_points.txt"):
            self.assertIn(path, files)
        self.assertFalse([n for n in files if n.endswith(".pyc")])
        self.assertEqual(set(modes.values()), {0o100644})

    def test_metadata_is_complete(self):
        prepared = backend.prepare_metadata_for_build_wheel(self.dir)
        told = email.message_from_bytes(self.read(os.path.join(prepared, "METADATA")))
        self.assertEqual((told["Name"], told["Version"], told["Requires-Python"]), ("millrace", millrace.__version__, ">=3.10"))
        for field in ("Summary", "License-Expression", "Description-Content-Type"):
            self.assertTrue(told[field], field)
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            self.assertEqual(told.get_payload(decode=True).decode(), file.read())

    def test_binary_is_script_of_platform(self):
        for platform, tag in (
            ("linux/amd64", "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64"),
            ("linux/arm64", "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64"),
            ("darwin/amd64", "macosx_12_0_x86_64"), ("darwin/arm64", "macosx_12_0_arm64"),
        ):
            name = binary.build(self.program(HEADERS[platform]), platform, self.dir)
            self.assertEqual(name, f"millrace-{millrace.__version__}-py3-none-{tag}.whl")
            files, modes = self.files(name)
            script = f"millrace-{millrace.__version__}.data/scripts/millrace"
            self.assertEqual(files[script], HEADERS[platform])
            self.assertEqual(modes[script], 0o100755)
            self.assertNotIn(INFO + "entry_points.txt", files)  # its script would take the binary's place
            for one in tag.split("."):
                self.assertIn(f"Tag: py3-none-{one}\n", files[INFO + "WHEEL"].decode())

    def test_binary_of_another_platform_is_rejected(self):
        programs = {None: (b"#!/bin/sh\n", b"", b"\x7fELF", HEADERS["linux/amd64"][:18] + b"\x08\x00", bytes.fromhex("cffaedfe12000001"))}
        programs.update({platform: (header,) for platform, header in HEADERS.items()})
        for platform in binary.PLATFORMS:
            for of, contents in programs.items():
                for content in contents:
                    if of == platform:
                        continue
                    with self.assertRaisesRegex(binary.PlatformError, f"is a program for {of or 'an unknown platform'}, not for {platform}"):
                        binary.build(self.program(content), platform, self.dir)
        self.assertEqual(os.listdir(self.dir), ["program"])
        with mock.patch("sys.stderr", io.StringIO()), self.assertRaises(SystemExit) as exit:
            binary.main([self.program(HEADERS["linux/arm64"]), "linux/amd64", "-o", self.dir])
        self.assertIn("is a program for linux/arm64, not for linux/amd64", str(exit.exception.code))

    def test_builds_are_reproducible(self):
        program = self.program(HEADERS["linux/arm64"])
        makers = (backend.build_wheel, backend.build_editable, backend.build_sdist, lambda d: binary.build(program, "linux/arm64", d))
        for make in makers:
            name = make(self.dir)
            first = self.read(name)
            os.unlink(os.path.join(self.dir, name))
            with mock.patch("time.time", return_value=2e9):
                make(self.dir)
            self.assertEqual(self.read(name), first, name)

    def test_source_distribution_builds_same_wheel(self):
        with tarfile.open(os.path.join(self.dir, backend.build_sdist(self.dir))) as archive:
            names = archive.getnames()
            for member in archive.getmembers():
                self.assertFalse(member.issym() or member.name.startswith("/") or ".." in member.name)
        root = f"millrace-{millrace.__version__}/"
        for path in ("PKG-INFO", "pyproject.toml", "README.md", "packaging/backend.py", "millrace/py.typed"):
            self.assertIn(root + path, names)
        self.assertFalse([n for n in names if n.startswith((root + "tests", root + "runner"))])
