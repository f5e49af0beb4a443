"""How is a value that a request carried kept out of everything that comes back?

Whoever is asked may answer with what it was sent: in a body, a header, an error. Each form in
which a value usually returns is known here, and is replaced before anything else sees the answer.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "[hidden]"
_OF_NUMBERS = frozenset("0123456789+-.e")


class Veil:
    """Replaces some values, however they are written."""

    def __init__(self, values: Sequence[str]) -> None:
        forms = {form for value in values if value for form in _forms(value)}
        # The longer form first: a shorter one may be a part of it.
        self._forms = sorted(forms, key=len, reverse=True)
        wrapped = [form for value in values if value for form in _base64_forms(value.encode())]
        self._wrapped = re.compile("|".join(map(_over_lines, wrapped))) if wrapped else None
        self._numbers = [form for form in self._forms if not set(form) - _OF_NUMBERS]

    def text(self, text: str) -> str:
        """Return a text without the values."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        # Mail and keys are written in lines of a fixed length, wherever a value falls in them.
        return self._wrapped.sub(HIDDEN, text) if self._wrapped is not None else text

    def value(self, value: Any) -> Any:
        """Return a JSON value without the values, in its texts and its keys."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if isinstance(value, dict):
            return {self.text(key): self.value(one) for key, one in value.items()}
        if self._numbers and isinstance(value, int | float) and not isinstance(value, bool):
            # A value of digits alone may come back as a number.
            written = json.dumps(value)
            return HIDDEN if any(form in written for form in self._numbers) else value
        return value


def _forms(value: str) -> Iterable[str]:
    raw = value.encode()
    yield value
    yield quote(value, safe="")
    yield quote(value, safe="").lower()
    for inner in quote(value, safe=""), quote(value), quote_plus(value):
        # An address inside another one.
        yield quote(inner, safe="")
        yield quote(inner)
    yield quote(value)
    yield quote_plus(value)
    for written in (quoted := json.dumps(value)[1:-1]), quoted.replace("/", "\\/"):
        # What encoders that mind a page around their JSON escape beside: none, a little, a lot.
        for signs in "", "<>&", "<>&'", "<>&'+`":
            yield _escaped(written, signs, "\\u{:04x}")
            yield _escaped(written, signs, "\\u{:04X}")
    yield html.escape(value)
    # A quote and an apostrophe have several names on a page, and some write a plus by its number.
    for quotes in "&#34;", "&#x22;", "&quot;":
        for apostrophe in "&#39;", "&#039;", "&#x27;", "&apos;", "'":
            page = html.escape(value, quote=False).replace('"', quotes).replace("'", apostrophe)
            yield page
            yield page.replace("+", "&#43;")
    yield raw.hex()
    yield raw.hex().upper()
    yield value[::-1]
    for whole in _base64_forms(raw):
        yield whole
        yield whole.translate(_URL_SAFE)


def _escaped(text: str, signs: str, form: str) -> str:
    return text.translate({ord(sign): form.format(ord(sign)) for sign in signs})


def _over_lines(form: str) -> str:
    return r"(?:\r?\n|\\r\\n|\\n)?".join(re.escape(letter) for letter in form)


_URL_SAFE = str.maketrans("+/", "-_")


def _base64_forms(raw: bytes) -> Iterable[str]:
    """Return what any text that holds these bytes shows of them in base64: at each alignment."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw).decode("ascii").rstrip("=")
        # The letters at both ends also depend on what stands beside the value.
        first = {0: 0, 1: 2, 2: 3}[before]
        last = len(encoded) - (0 if (before + len(raw)) % 3 == 0 else 1)
        if last - first >= 8:
            yield encoded[first:last]
