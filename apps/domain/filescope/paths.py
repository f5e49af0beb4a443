"""Which names may a request give a file, and which patterns may it search with?"""

import re
from typing import Final

MAX_PATH_UNITS: Final = 4_096
MAX_PATTERN: Final = 4_096
ROOT: Final = "."

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class ScopeError(ValueError):
    """A request over files that is not met; the sentence says why."""


class NotThere(ScopeError):
    """A file or folder that the scope does not have, or not of that kind."""


def check_logical(path: str) -> tuple[str, ...]:
    """Return the parts of a logical path, or refuse it."""
    try:
        units = len(path.encode("utf-16-le")) // 2
    except UnicodeEncodeError:
        raise ScopeError("The path holds half of a character.") from None
    if units > MAX_PATH_UNITS:
        raise ScopeError(f"The path is longer than {MAX_PATH_UNITS:,} characters.")
    if _CONTROL.search(path):
        raise ScopeError("The path holds a control character.")
    if "\\" in path or ":" in path:
        raise ScopeError("The path holds a backslash or a colon.")
    parts = tuple(path.split("/"))
    _check_parts(parts, "The path")
    return parts


def glob_expression(pattern: str) -> str:
    """Return the regular expression that a glob pattern stands for, or refuse it.

    `*` stands for any characters of one part. `**` stands for any number of whole parts where it is
    one itself, and elsewhere for any characters.
    """
    if not 1 <= len(pattern) <= MAX_PATTERN:
        raise ScopeError(f"A pattern has 1 to {MAX_PATTERN:,} characters.")
    if "\x00" in pattern or "\\" in pattern or ":" in pattern:
        raise ScopeError("The pattern holds NUL, a backslash or a colon.")
    parts = pattern.split("/")
    _check_parts(tuple(parts), "The pattern")
    written: list[str] = []
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            written.append(r"(?s:.+)" if last else r"(?:[^/]+/)*")
        else:
            written.append(_part(part) + ("" if last else "/"))
    return "".join(written)


def _part(part: str) -> str:
    words = {"**": "(?s:.*)", "*": "[^/]*"}
    pieces = re.split(r"(\*\*|\*)", part)
    return "".join(words.get(piece) or re.escape(piece) for piece in pieces)


def _check_parts(parts: tuple[str, ...], what: str) -> None:
    if any(part in ("", ".", "..") for part in parts):
        raise ScopeError(
            f"{what} is relative, and has no parts that are empty or dots; leave it out for the"
            " root."
            if what == "The path"
            else f"{what} is relative, and has no parts that are empty or dots."
        )
