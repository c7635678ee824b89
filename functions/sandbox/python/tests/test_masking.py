import base64
import json
import unittest
import urllib.parse

from runner.masking import STARS, Masker

SECRET = 'pä"ss/<w>&rd?1'


class MaskingTest(unittest.TestCase):
    def test_every_encoding_is_hidden(self):
        masker = Masker([SECRET])
        data = SECRET.encode()
        shown = [
            SECRET,
            urllib.parse.quote(SECRET),
            urllib.parse.quote(SECRET, safe=""),
            urllib.parse.quote_plus(SECRET),
            urllib.parse.quote(SECRET, safe="").lower(),
            json.dumps(SECRET)[1:-1],
            json.dumps(SECRET, ensure_ascii=False)[1:-1],
        ]
        for text in shown:
            self.assertEqual(f"a {STARS} b", masker.mask(f"a {text} b"), text)
        for before in (b"", b"x", b"xy"):
            for encode in (base64.b64encode, base64.urlsafe_b64encode):
                for after in (b"", b"z", b"zz"):
                    line = encode(before + data + after).decode()
                    self.assertIn(STARS, masker.mask(line), line)

    def test_lines_of_a_value_are_hidden_and_short_ones_are_not(self):
        masker = Masker(["first line\nsecond line\n", "abc"])
        self.assertEqual(f"{STARS} and {STARS}, abc", masker.mask("first line and second line, abc"))

    def test_without_secrets_nothing_changes(self):
        self.assertEqual("text", Masker().mask("text"))
        self.assertEqual("text", Masker(["short"]).mask("text"))
