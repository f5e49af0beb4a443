"""What can already be shown of a tool's arguments while a model is still writing them?

Arguments arrive as fragments of one JSON object. This reader follows along, hands out the
decoded text of one string argument as it grows, and the other top-level strings once they are
whole. It previews only; the finished text is parsed strictly by somebody else.
"""

import re
from collections.abc import Callable
from typing import Final

MAX_SIDE_STRING: Final = 4_096

_PLAIN: Final = re.compile(r'[^"\\\x00-\x1f]+')
_SPACE: Final = re.compile(r"[ \t\n\r]+")
_SKIPPED: Final = re.compile(r'[^"\[\]{}]+')
_LITERAL_PART: Final = re.compile(r"[-+.0-9A-Za-z]+")
_LITERAL: Final = re.compile(
    r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null"
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SIMPLE: Final = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}


class _Broken(Exception):
    """The text cannot become one JSON object any more."""


class ArgumentStream:
    """A reader of one JSON object that arrives in fragments; it never raises."""

    def __init__(self, previewed: str | None) -> None:
        self.previewed = previewed
        self.broken = False
        self.finished = False
        self.strings: dict[str, str] = {}
        self._preview: list[str] = []
        self._length = 0
        self._keys: set[str] = set()
        self._key = ""
        self._state: Callable[[str, int], int] = self._start
        self._after_string: Callable[[], None] = self._end_of_key
        self._collected: list[str] = []
        self._collected_length = 0
        self._is_preview = False
        self._escape = ""
        self._high = 0
        self._held = ""
        self._literal = ""
        self._depth = 0

    @property
    def text(self) -> str:
        """The decoded text of the previewed argument so far."""
        if len(self._preview) > 1:
            self._preview = ["".join(self._preview)]
        return self._preview[0] if self._preview else ""

    @property
    def length(self) -> int:
        """How many code points of the previewed argument are decoded."""
        return self._length

    def feed(self, delta: str) -> str:
        """Take the next fragment and return what it added to the previewed text."""
        if self.broken:
            return ""
        before = self._length
        try:
            delta = self._whole_characters(delta)
            position = 0
            while position < len(delta):
                position = self._state(delta, position)
        except _Broken:
            self.broken = True
        return self.text[before:] if self._length > before else ""

    def _whole_characters(self, delta: str) -> str:
        """Join surrogate halves that a provider's own chunks cut apart."""
        delta, self._held = self._held + delta, ""
        if not _SURROGATE.search(delta):
            return delta
        if "\ud800" <= delta[-1] <= "\udbff":
            delta, self._held = delta[:-1], delta[-1]
        try:
            return delta.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise _Broken from None

    # Each state takes the text and a position, and returns how far it read.

    def _start(self, text: str, at: int) -> int:
        return self._expect(text, at, {"{": self._first_key})

    def _first_key(self, text: str, at: int) -> int:
        return self._expect(text, at, {'"': self._begin_key, "}": self._finish})

    def _next_key(self, text: str, at: int) -> int:
        return self._expect(text, at, {'"': self._begin_key})

    def _colon(self, text: str, at: int) -> int:
        return self._expect(text, at, {":": self._value})

    def _comma(self, text: str, at: int) -> int:
        return self._expect(text, at, {",": self._next_key, "}": self._finish})

    def _done(self, text: str, at: int) -> int:
        return self._expect(text, at, {})

    def _expect(self, text: str, at: int, then: dict[str, Callable[..., object]]) -> int:
        space = _SPACE.match(text, at)
        if space is not None:
            return space.end()
        following = then.get(text[at])
        if following is None:
            raise _Broken
        if following in (self._begin_key, self._finish):
            following()
        else:
            self._state = following  # type: ignore[assignment]
        return at + 1

    def _finish(self) -> None:
        self.finished = True
        self._state = self._done

    def _begin_key(self) -> None:
        self._begin_string(self._end_of_key, is_preview=False)

    def _end_of_key(self) -> None:
        self._key = "".join(self._collected)
        if self._key in self._keys:
            # Two readers could take two different values, so nothing more is shown.
            raise _Broken
        self._keys.add(self._key)
        self._state = self._colon

    def _value(self, text: str, at: int) -> int:
        space = _SPACE.match(text, at)
        if space is not None:
            return space.end()
        first = text[at]
        if first == '"':
            self._begin_string(self._end_of_value, is_preview=self._key == self.previewed)
        elif first in "[{":
            self._depth = 1
            self._state = self._nested
        elif _LITERAL_PART.match(first):
            self._literal = ""
            self._state = self._plain_literal
            return at
        else:
            raise _Broken
        return at + 1

    def _end_of_value(self) -> None:
        if not self._is_preview and self._collected_length <= MAX_SIDE_STRING:
            self.strings[self._key] = "".join(self._collected)
        self._state = self._comma

    def _plain_literal(self, text: str, at: int) -> int:
        part = _LITERAL_PART.match(text, at)
        if part is not None:
            self._literal += part.group()
            return part.end()
        if not _LITERAL.fullmatch(self._literal):
            raise _Broken
        self._state = self._comma
        return at

    def _nested(self, text: str, at: int) -> int:
        skipped = _SKIPPED.match(text, at)
        if skipped is not None:
            return skipped.end()
        if text[at] == '"':
            self._begin_string(self._end_of_nested_string, is_preview=False)
        else:
            self._depth += 1 if text[at] in "[{" else -1
            if self._depth == 0:
                self._state = self._comma
        return at + 1

    def _end_of_nested_string(self) -> None:
        self._state = self._nested

    def _begin_string(self, after: Callable[[], None], *, is_preview: bool) -> None:
        self._after_string = after
        self._is_preview = is_preview
        self._collected = []
        self._collected_length = 0
        self._high = 0
        self._state = self._string

    def _string(self, text: str, at: int) -> int:
        plain = _PLAIN.match(text, at)
        if plain is not None:
            self._append(plain.group())
            return plain.end()
        if text[at] == "\\":
            self._escape = ""
            self._state = self._escaped
        elif text[at] == '"':
            self._no_high_pending()
            self._after_string()
        else:
            raise _Broken
        return at + 1

    def _escaped(self, text: str, at: int) -> int:
        self._escape += text[at]
        if self._escape[0] != "u":
            if self._escape not in _SIMPLE:
                raise _Broken
            self._append(_SIMPLE[self._escape])
            self._state = self._string
        elif len(self._escape) > 1 and text[at] not in "0123456789abcdefABCDEF":
            raise _Broken
        elif len(self._escape) == 5:
            self._append_unit(int(self._escape[1:], 16))
            self._state = self._string
        return at + 1

    def _append_unit(self, unit: int) -> None:
        if 0xDC00 <= unit <= 0xDFFF:
            if not self._high:
                raise _Broken
            whole = 0x10000 + ((self._high - 0xD800) << 10) + (unit - 0xDC00)
            self._high = 0
            self._append(chr(whole))
        elif 0xD800 <= unit <= 0xDBFF:
            self._no_high_pending()
            self._high = unit
        else:
            self._append(chr(unit))

    def _no_high_pending(self) -> None:
        if self._high:
            raise _Broken

    def _append(self, text: str) -> None:
        self._no_high_pending()
        if self._is_preview:
            self._preview.append(text)
            self._length += len(text)
        elif self._collected_length <= MAX_SIDE_STRING:
            self._collected.append(text)
            self._collected_length += len(text)
