import os
import stat
import tempfile
import unittest
import zipfile

from millrace import FlowDefinitionError
from millrace._pack import pack
from runner.artifact import RefusedError, extract


class Extract(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = directory.name
        self.target = os.path.join(self.root, "in")
        os.mkdir(self.target)
        self.zip = os.path.join(self.root, "a.zip")

    def write(self, *files):
        with zipfile.ZipFile(self.zip, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content, mode in files:
                info = zipfile.ZipInfo(name)
                info.external_attr = mode << 16
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, content)

    def test_invalid_archives_are_rejected(self):
        file = stat.S_IFREG | 0o644
        for want, files in {
            "leads out": [("../evil.py", "", file)],
            "absolute": [("/etc/evil", "", file)],
            "leads out of": [("a/../b", "", file)],
            "absolute name": [("C:evil", "", file)],
            "plain text": [("a\\b", "", file)],
            "symbolic link": [("link", "/etc/passwd", stat.S_IFLNK | 0o777)],
            "neither": [("pipe", "", stat.S_IFIFO | 0o644)],
            "twice": [("a", "1", file), ("./a", "2", file)],
            "both a file": [("a", "1", file), ("a/b", "2", file)],
            "100 times": [("zeros", b"\0" * (8 << 20), file)],
        }.items():
            with self.subTest(want), self.assertRaisesRegex(RefusedError, want):
                self.write(*files)
                extract(self.zip, self.target)
            self.assertEqual(sorted(os.listdir(self.root)), ["a.zip", "in"])
        with open(self.zip, "wb") as out:
            out.write(b"no zip")
        with self.assertRaisesRegex(RefusedError, "not a readable zip"):
            extract(self.zip, self.target)

    def test_wrong_size_in_header_is_detected(self):
        self.write(("zeros", b"\0" * (16 << 20), 0o100644))
        with open(self.zip, "r+b") as file:
            data = file.read()
            file.seek(data.rindex(b"zeros") - 46 + 24)
            file.write((10).to_bytes(4, "little"))
        with self.assertRaises(RefusedError):
            extract(self.zip, self.target)
        self.assertLessEqual(os.path.getsize(os.path.join(self.target, "zeros")), 2 << 20)

    def test_packed_files_are_extracted(self):
        source = os.path.join(self.root, "src")
        os.makedirs(os.path.join(source, "pkg", "__pycache__"))
        for name in ("flow.py", "pkg/mod.py", "pkg/__pycache__/mod.pyc", ".env"):
            with open(os.path.join(source, name), "w") as file:
                file.write(name)
        # A server's data directory and its sockets, which stay out.
        data = os.path.join(source, "data")
        os.makedirs(os.path.join(data, "store"))
        for name in ("format.json", "vault.key", "credentials.json"):
            with open(os.path.join(data, name), "w") as file:
                file.write("secret")
        os.mkfifo(os.path.join(source, "pkg", "pipe"))
        self.assertEqual(pack(source, self.zip).files, 2)
        extract(self.zip, self.target)
        self.assertEqual(sorted(os.listdir(self.target)), ["flow.py", "pkg"])
        with open(os.path.join(self.target, "pkg", "mod.py")) as file:
            self.assertEqual(file.read(), "pkg/mod.py")
        os.symlink("/etc/passwd", os.path.join(source, "link.py"))
        with self.assertRaisesRegex(FlowDefinitionError, "symbolic link"):
            pack(source, self.zip)
