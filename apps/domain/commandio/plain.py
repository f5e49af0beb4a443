"""How is a program called that knows no protocol, and what is made of what it prints?

Each declared argument becomes exactly one argument of the program, whatever a value holds: no
shell ever reads it. What it prints becomes one text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from apps.domain.commandio.templates import BadTemplate, fill, parse_template, slots
from apps.domain.words import shown

MAX_TEXT_BYTES: Final = 64 * 1024
MARKER: Final = "\n[the output is longer; the rest is left out]"

# What a terminal would obey: sequences that begin with escape, and single controls.
_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class BadArguments(ValueError):
    """Arguments that a program cannot be given; nothing was started."""


def plain_argv(args: Sequence[str], arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the arguments of a program with a call's values in them, or raise `BadArguments`.

    A string goes in as it is, any other value as compact JSON. Each text is read once, so braces,
    quotes and dollars of a value mean nothing.
    """
    values: dict[str, str] = {}
    filled: list[str] = []
    for text in args:
        try:
            parts = parse_template(text)
            for name in slots(parts):
                if name not in arguments:
                    raise BadArguments(f"The program needs a value for {shown(name)}.")
                values.setdefault(name, _as_text(arguments[name]))
            word = fill(parts, values)
        except BadTemplate as refusal:
            raise BadArguments(str(refusal)) from None
        if "\x00" in word:
            raise BadArguments("An argument of a program cannot hold the NUL character.")
        filled.append(word)
    return tuple(filled)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def clean_output(printed: bytes, *, complete: bool = True) -> str:
    """Return what a program printed as one bounded text, without what a terminal would obey.

    `complete` is false where not everything that was printed has been kept.
    """
    text = printed.decode("utf-8", "replace")
    text = _SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROLS.sub("", text)
    encoded = text.encode()
    if complete and len(encoded) <= MAX_TEXT_BYTES:
        return text
    room = MAX_TEXT_BYTES - len(MARKER.encode())
    return encoded[:room].decode("utf-8", "ignore") + MARKER
