"""Hides the values of secrets in log lines and large outputs, as the service's
package mask does.

On AWS, log lines and large outputs do not pass through the worker that knows the
secrets, so they are masked before they are sent. A value that is printed or returned
by mistake is hidden as plain text, in base64, URL-encoded, JSON-escaped and in
Python's repr.
"""

import base64
import json
import re
import urllib.parse

MIN_LENGTH = 6
STARS = "***"
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*')  # a string or a number of JSON
_SAFE = ("-_.~", "-_.~/", "-_.!~*'()", "-_.~$&+,/:;=@")


class Masker:
    """Masks text; without secrets it does nothing."""

    def __init__(self, secrets=()):
        forms = set()
        for value in secrets:
            for part in {value, value.strip(), *value.splitlines()}:
                if len(part.encode("utf-8", "replace")) >= MIN_LENGTH:
                    forms.update(_encodings(part))
        forms.discard("")
        self._pattern = _any_of(forms)
        self._in_json = _any_of({json.dumps(form, ensure_ascii=False)[1:-1] for form in forms})

    def mask(self, text):
        return self._pattern.sub(STARS, text) if self._pattern else text

    def mask_json(self, data):
        """Mask the strings and keys of a JSON document written by _values.encode; a number that contains a secret becomes stars."""
        if not self._in_json:
            return data
        text = data.decode("utf-8")
        if not self._in_json.search(text):
            return data
        return _SCALAR.sub(self._masked, text).encode("utf-8")

    def _masked(self, scalar):
        if scalar[0].startswith('"'):
            return self._in_json.sub(STARS, scalar[0])
        return f'"{STARS}"' if self._in_json.search(scalar[0]) else scalar[0]


def _any_of(forms):
    return re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True)))) if forms else None


def _encodings(value):
    data = value.encode("utf-8", "replace")
    yield value
    for shift in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield _core(encode, data, shift)
    escaped = [urllib.parse.quote(data, safe=safe) for safe in _SAFE]
    escaped.append(urllib.parse.quote_plus(data))
    for form in escaped:
        yield form
        yield re.sub("%..", lambda match: match[0].lower(), form)
    for ascii_only in (False, True):
        form = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        html = form
        for char in "<>&":
            html = html.replace(char, f"\\u{ord(char):04x}")
        for text in (form, html):
            yield text
            yield text.replace("/", "\\/")
    for show in (repr, ascii):
        form = "".join("'" if char == "'" else show(char)[1:-1] for char in value)
        yield form
        yield "".join("\\'" if char == "'" else show(char)[1:-1] for char in value)


def _core(encode, data, shift):
    """The characters that the base64 of every text with data after shift more bytes contains."""
    text = encode(b"\0" * shift + data).decode().rstrip("=")
    if (shift + len(data)) % 3:
        text = text[:-1]  # the next byte has a part in it
    return text[(0, 2, 3)[shift] :]
