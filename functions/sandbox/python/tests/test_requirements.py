"""requirements.txt beside a flow: what is installed, packed, kept, and refused."""

import contextlib
import io
import json
import os
import shutil
import stat
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

from millrace import __main__ as cli
from millrace import _requirements
from millrace._pack import pack
from millrace.errors import FlowDefinitionError

from . import wheels


class Packing(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="millrace-requirements-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.links, self.flow, self.bin = (os.path.join(self.dir, n) for n in ("links", "flow", "bin"))
        for path in (self.links, self.flow, self.bin):
            os.mkdir(path)
        self.zip = os.path.join(self.dir, "artifact.zip")
        self.write("flow.py", "x = 1\n")
        # No installer of this machine is uv: the tests name what they want.
        environment = {
            "PATH": self.bin, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": self.links, "PIP_CONFIG_FILE": os.devnull,
            "MILLRACE_HOME": os.path.join(self.dir, "home"), "HOME": self.dir,
        }
        patch = mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)

    def write(self, name, text):
        with open(os.path.join(self.flow, name), "w", encoding="utf-8") as file:
            file.write(text)

    def require(self, text):
        self.write("requirements.txt", text)

    def members(self):
        with zipfile.ZipFile(self.zip) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    def fake_uv(self, body):
        path = os.path.join(self.bin, "uv")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!{sys.executable}\nimport json, os, sys\n{body}")
        os.chmod(path, stat.S_IRWXU)


class TestInstalled(Packing):
    def test_packages_are_zipped_and_cached(self):
        wheels.build(self.links, "slugs")
        wheels.build(self.links, "tables")
        wheels.build(self.links, "dotted", script=True)
        self.require("# what the flow needs\ntables==1.0   # with slugs\n\ndotted ; python_version >= '3'\n")
        first = pack(self.flow, self.zip)
        self.assertEqual(first.dependencies, [{"name": n, "version": "1.0"} for n in ("dotted", "slugs", "tables")])
        self.assertFalse(first.cached)
        names = self.members()
        for name in ("flow.py", "requirements.txt", "slugs.py", "tables.py", "dotted/__init__.py", "dotted/.data", "slugs-1.0.dist-info/METADATA"):
            self.assertIn(name, names)
        self.assertFalse([n for n in names if n.startswith("bin/") or n.endswith((".pyc", "RECORD", "INSTALLER", "REQUESTED", "direct_url.json"))])
        shutil.rmtree(self.links)  # nothing could be installed now
        with mock.patch("subprocess.run", side_effect=AssertionError("an installer was started")):
            second = pack(self.flow, self.zip)
        self.assertTrue(second.cached)
        self.assertEqual(second.sha256, first.sha256)

    def test_packages_are_for_servers_platform_and_python(self):
        for tag in ("py3-none-manylinux2014_aarch64", "cp310-abi3-manylinux_2_17_x86_64", "py3-none-macosx_11_0_arm64"):
            wheels.build(self.links, "native", tag=tag)
        self.require("native\n")
        for platform, built_for in (
            ("linux/arm64", b"manylinux2014_aarch64"), ("linux/amd64", b"manylinux_2_17_x86_64"), ("darwin/arm64", b"macosx_11_0_arm64"),
        ):
            packed = pack(self.flow, self.zip, platform, "3.13")
            self.assertFalse(packed.cached, platform)
            self.assertIn(built_for, self.members()["native.py"])
            self.assertEqual((packed.platform, packed.python_version), (platform, "3.13"))
        shutil.rmtree(self.links)
        self.assertTrue(pack(self.flow, self.zip, "linux/arm64", "3.13").cached)

    def test_included_files_change_hash(self):
        for version in ("1.0", "2.0"):
            wheels.build(self.links, "units", version)
        self.require("-r more.txt\n-c bounds.txt\n")
        self.write("more.txt", "units\n")
        self.write("bounds.txt", "units<2\n")
        self.assertEqual(pack(self.flow, self.zip).dependencies, [{"name": "units", "version": "1.0"}])
        self.write("bounds.txt", "units>1\n")
        self.assertEqual(pack(self.flow, self.zip).dependencies, [{"name": "units", "version": "2.0"}])

    def test_uv_is_used_if_installed(self):
        # It writes what it was asked as the package that it installs.
        self.fake_uv(
            "target = sys.argv[sys.argv.index('--target') + 1]\n"
            "os.environ.pop('LC_CTYPE', None)\n"
            "said = {'arguments': sys.argv[1:], 'environment': {k: v for k, v in os.environ.items() if k.startswith('UV_')}}\n"
            "open(target + '/asked.json', 'w').write(json.dumps(said))\n"
        )
        self.require("slugs\n")
        with mock.patch.dict(os.environ, {"PIP_INDEX_URL": "https://me:pw@index.example/simple", "PIP_FIND_LINKS": "/a /b"}):
            pack(self.flow, self.zip, "linux/arm64", "3.13")
        asked = json.loads(self.members()["asked.json"])
        line = " ".join(asked["arguments"])
        for part in ("pip install", "--only-binary :all:", "--python-platform aarch64-manylinux_2_28", "--python-version 3.13", "--no-index", "-r requirements.txt"):
            self.assertIn(part, line)
        self.assertNotIn("pw", line)
        self.assertEqual(asked["environment"], {"UV_DEFAULT_INDEX": "https://me:pw@index.example/simple", "UV_FIND_LINKS": "/a,/b"})

    def test_command_line_prints_json(self):
        self.require("# nothing yet\n")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(cli.main(["pack", self.flow, "-o", self.zip, "--platform", "linux/arm64", "--python-version", "3.13"]), 0)
        told = json.loads(out.getvalue())
        self.assertEqual(told.pop("bytes"), os.path.getsize(self.zip))
        self.assertEqual(len(told.pop("sha256")), 64)
        self.assertEqual(told, {
            "output": self.zip, "files": 2, "dependencies": [], "cached": False, "platform": "linux/arm64", "python_version": "3.13",
        })

    def test_old_sets_are_removed(self):
        base = os.path.join(self.dir, "home", "dependencies")
        for n in range(_requirements.KEPT + 3):
            os.makedirs(os.path.join(base, f"old{n}"))
            os.utime(os.path.join(base, f"old{n}"), (n, n))
        wheels.build(self.links, "slugs")
        self.require("slugs\n")
        pack(self.flow, self.zip)
        left = os.listdir(base)
        self.assertEqual(len(left), _requirements.KEPT)
        self.assertNotIn("old3", left)
        self.assertIn("old4", left)


class TestNothing(Packing):
    def test_no_installer_is_started(self):
        for text in (None, "", "\n\n", "# comments\n   # only\n", "--index-url https://index.example/simple\n", "-r more.txt\n"):
            with self.subTest(text=text), mock.patch("subprocess.run", side_effect=AssertionError("an installer was started")):
                if text is not None:
                    self.require(text)
                self.write("more.txt", "# nothing\n")
                self.assertEqual(pack(self.flow, self.zip).dependencies, [])


class TestRejected(Packing):
    def refused(self, *parts, text=None, **options):
        if text is not None:
            self.require(text)
        with self.assertRaises(FlowDefinitionError) as caught:
            pack(self.flow, self.zip, **options)
        for part in parts:
            self.assertIn(part, str(caught.exception))
        return str(caught.exception)

    def test_requirements_without_wheels(self):
        with mock.patch("subprocess.run", side_effect=AssertionError("an installer was started")):
            for line, part in (
                ("-e .", "editable"), ("git+https://me:pw@git.example/x", "wheels only"), ("x @ git+https://git.example/x", "wheels only"),
                ("./folder", "wheels only"), ("x @ https://example.com/x.tar.gz", "wheels only"), ("--no-binary :all:", "remove this option"),
                ("what is this", "no requirement"), ("==1.0", "no requirement"),
            ):
                with self.subTest(line=line):
                    said = self.refused("requirements.txt, line 3 (", part, text=f"# x\nslugs\n{line}\n")
                    self.assertNotIn("pw", said)
            self.refused("more.txt, line 2 (", text="-r more.txt\n") if not self.write("more.txt", "\nwhat is this\n") else None
            self.refused("includes itself", text="-r requirements.txt\n")
            self.refused("cannot be read", text="-r missing.txt\n")
            self.refused("linux/arm64", text="slugs\n", platform="plan9/mips")
            self.refused("3.11", text="slugs\n", python_version="2")

    def test_no_wheel_for_servers_platform(self):
        wheels.build(self.links, "native", tag="py3-none-macosx_11_0_arm64")
        self.refused(
            "requirements.txt, line 2 (native==1.0): no wheel of it fits linux/arm64 and Python 3.13", "name a version", "pip says",
            text="# x\nnative==1.0\n", platform="linux/arm64", python_version="3.13",
        )

    def test_missing_dependency(self):
        wheels.build(self.links, "tables")
        self.refused("requirements.txt, line 1 (tables)", "slugs>=1", text="tables\n")

    def test_errors_of_uv(self):
        self.fake_uv(
            "print('  × No solution found when resolving dependencies:')\n"
            "print('  ╰─▶ Because nosuch was not found in the provided package locations and you require nosuch==1, your requirements are unsatisfiable.')\n"
            "print('  see https://me:pw@index.example/')\nsys.exit(1)\n"
        )
        said = self.refused("requirements.txt, line 2 (nosuch==1): no wheel of it fits", "uv says", text="slugs\nnosuch==1\n")
        self.assertNotIn("pw", said)

    def test_index_that_does_not_answer(self):
        with mock.patch.dict(os.environ, {"PIP_NO_INDEX": "0", "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1"}):
            said = self.refused("the package index does not answer", text="slugs\n")
        self.assertNotIn("wheel", said)
        self.fake_uv("print('error: Failed to fetch: `https://index.example/simple/slugs/`')\nsys.exit(2)\n")
        self.refused("the package index does not answer", text="slugs\n")

    def test_file_conflicts_with_package(self):
        wheels.build(self.links, "slugs")
        self.write("slugs.py", "mine = 1\n")
        self.refused("slugs.py", "rename yours", text="slugs\n")

    def test_failed_installation_leaves_nothing(self):
        self.refused(text="nosuch\n")
        self.assertEqual(os.listdir(os.path.join(self.dir, "home", "dependencies")), [])
