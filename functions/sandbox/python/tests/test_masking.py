import base64
import json
import unittest
import urllib.parse

from millrace import _values
from runner.masking import STARS, Masker

SECRET = 'pä"ss/<w>&rd?1'


class MaskingTest(unittest.TestCase):
    def test_encodings_are_masked(self):
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
            repr(SECRET)[1:-1],
            ascii(SECRET)[1:-1],
        ]
        for text in shown:
            self.assertEqual(f"a {STARS} b", masker.mask(f"a {text} b"), text)
        for before in (b"", b"x", b"xy"):
            for encode in (base64.b64encode, base64.urlsafe_b64encode):
                for after in (b"", b"z", b"zz"):
                    line = encode(before + data + after).decode()
                    self.assertIn(STARS, masker.mask(line), line)

    def test_repr_is_masked(self):
        for value in ('{"key": "a\\nb", "path": "c:\\\\x"}', "it's\ta\x01 \xa0 key", "'both\" quotes\\", "käse\u2028\U0001f600!"):
            masker = Masker([value])
            for shown in ([value], {"k": value}, {value: 1}, [value + "'"], [value + '"'], ["'" + value + '"']):
                for text in (repr(shown), ascii(shown)):
                    self.assertIn(STARS, masker.mask(text), text)

    def test_strings_and_numbers_in_json_are_masked(self):
        value = 'k/1 "ä"\\n'
        masker = Masker([value, "123456"])
        forms = [value, json.dumps(value), repr([value]), base64.b64encode(value.encode()).decode(), urllib.parse.quote(value)]
        for output in (forms, {"deep": [{value: forms}], "n": 123456, "part": -9.1234561, "other": [123, 45.6], "quote\\\"": "123456"}):
            masked = masker.mask_json(_values.encode(output))
            text = json.dumps(json.loads(masked))
            for form in forms[:1] + forms[3:]:
                self.assertNotIn(form, text)
            self.assertNotIn("k/1", text)
        hidden = {"n": STARS, "part": STARS, "other": [123, 45.6], 'quote\\"': STARS}
        self.assertEqual({"deep": [{STARS: json.loads(masked)["deep"][0][STARS]}], **hidden}, json.loads(masked))
        untouched = _values.encode({"n": 12345, "text": "nothing"})
        self.assertEqual(untouched, masker.mask_json(untouched))

    def test_long_lines_of_value_are_masked(self):
        masker = Masker(["first line\nsecond line\n", "abc"])
        self.assertEqual(f"{STARS} and {STARS}, abc", masker.mask("first line and second line, abc"))

    def test_text_without_secrets_is_unchanged(self):
        self.assertEqual("text", Masker().mask("text"))
        self.assertEqual("text", Masker(["short"]).mask("text"))
