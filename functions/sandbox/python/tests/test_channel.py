import os
import tempfile
import threading
import unittest
from unittest import mock

from runner import hygiene, local


def frame(kind, body, nonce=b"n" * 16):
    return (len(body) + 17).to_bytes(4, "big") + kind + nonce + body


class Frames(unittest.TestCase):
    """Frames of the server arrive whole, in parts, or several at once."""

    def setUp(self):
        requests, self.server = os.pipe()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (requests, self.server, nowhere):
            self.addCleanup(os.close, descriptor)
        for name, value in (("REQUESTS", requests), ("ANSWERS", nowhere)):
            patch = mock.patch.object(local, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.channel = local.Channel()

    def send(self, data, size):
        """Write data in parts of a size, while it is read."""

        def write():
            for start in range(0, len(data), size):
                os.write(self.server, data[start : start + size])

        writer = threading.Thread(target=write)
        writer.start()
        self.addCleanup(writer.join)

    def test_frames_of_any_parts(self):
        large = os.urandom(3 * local.AT_ONCE + 5)
        data = frame(b"Q", b"one") + frame(b"Q", b"", b"m" * 16) + frame(b"Q", large) + frame(b"Q", b"end")
        for size in (1, 3, 4, 5, 21, 24, 1000, local.AT_ONCE, len(data)):
            with self.subTest(size=size):
                self.send(data, size)
                self.assertEqual(self.channel.read(), (b"Q", b"one"))
                self.assertEqual(self.channel._nonce, b"n" * 16)
                self.assertEqual(self.channel.read(), (b"Q", b""))
                self.assertEqual(self.channel._nonce, b"m" * 16)
                self.assertEqual(self.channel.read(), (b"Q", large))
                self.assertEqual(self.channel.read(), (b"Q", b"end"))
                self.assertEqual(self.channel._rest, b"")

    def test_files_and_inputs_of_any_parts(self):
        content = os.urandom(2 * local.AT_ONCE + 7)
        data = frame(b"I", content) + frame(b"I", b"[1]") + frame(b"N", b"no") + frame(b"Q", b"next")
        with tempfile.TemporaryDirectory() as scratch, mock.patch.object(hygiene, "scratch", scratch):
            for size in (1, 30, 1000, len(data)):
                with self.subTest(size=size):
                    self.send(data, size)
                    with open(self.channel.open_file("key", "name"), "rb") as file:
                        self.assertEqual(file.read(), content)
                    self.assertEqual(self.channel.fetch("up"), b"[1]")
                    with self.assertRaisesRegex(Exception, "could not be fetched: no"):
                        self.channel.fetch("up")
                    self.assertEqual(self.channel.read(), (b"Q", b"next"))


if __name__ == "__main__":
    unittest.main()
