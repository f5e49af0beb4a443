"""What is one row of a patch? Every row is read by a scanner that goes over it once.

A hunk header says in its colon what follows: a colon promises body rows, no colon means that a
register, or nothing, follows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from apps.domain.hashline.model import (
    After,
    AfterBlock,
    Before,
    BlockAt,
    Head,
    Place,
    Span,
    Tail,
)

MAX_LINE_NUMBER = 2**53 - 1
MAX_REGISTER_NAME = 64
MAX_HEADER_ROW = 4_096
"""A longer row is no hunk header: paths, names and numbers are all far shorter."""

_BLANKS = " \t"
_BETWEEN = " \t-.=…"
_NAME = re.compile(r"[A-Za-z0-9_-]*")
_DIGITS = re.compile(r"[0-9]*")
_NUMBERED = re.compile(r"[ \t]*([1-9][0-9]{0,15})[:|]")
_COLLAPSED = re.compile(r"[ \t]*[1-9][0-9]{0,15}-[1-9][0-9]{0,15}:")
_SHOWING = re.compile(r"\W{0,8}showing lines\b", re.IGNORECASE)
_FOREIGN = re.compile(
    r"@@|\*\*\*[ \t]*(?:Update|Add|Delete) File:|\*\*\*[ \t]*Move to:|diff --git "
)
_DIFF_HEADER = re.compile(r"(?:---|\+\+\+) ")
_VERB = re.compile(r"[ \t]*(PUT|CUT)[ \t]+[<>0-9]")


class Verb(Enum):
    """What a hunk header asks for."""

    PUT = "PUT"
    CUT = "CUT"
    REM = "REM"
    MV = "MV"


_VERBS = tuple(verb.value for verb in Verb)


@dataclass(frozen=True, slots=True)
class Header:
    """A hunk header as it was written; whether its parts fit together is the parser's business."""

    verb: Verb
    place: Place | None = None
    register: str | None = None
    colon: bool = False
    destination: str = ""


class _Scanner:
    """A position in a row; each step looks at each character at most once."""

    def __init__(self, row: str) -> None:
        self.row = row
        self.at = 0

    def skip(self, characters: str = _BLANKS) -> int:
        start = self.at
        while self.at < len(self.row) and self.row[self.at] in characters:
            self.at += 1
        return self.at - start

    def take(self, character: str) -> bool:
        if self.row.startswith(character, self.at):
            self.at += len(character)
            return True
        return False

    def digit_follows(self) -> bool:
        return self.at < len(self.row) and self.row[self.at] in "0123456789"

    def number(self) -> int | None:
        digits = _match(_DIGITS, self.row, self.at)
        if not digits or digits[0] == "0" or len(digits) > 16 or int(digits) > MAX_LINE_NUMBER:
            return None
        self.at += len(digits)
        return int(digits)

    def name(self) -> str | None:
        name = _match(_NAME, self.row, self.at)
        if not 1 <= len(name) <= MAX_REGISTER_NAME:
            return None
        self.at += len(name)
        return name

    def ended(self) -> bool:
        self.skip()
        return self.at == len(self.row)


def read_header(row: str) -> Header | None:
    """Return the hunk header that a row is, or None."""
    if len(row) > MAX_HEADER_ROW or not row.lstrip(_BLANKS).startswith(_VERBS):
        return None
    scanner = _Scanner(row)
    scanner.skip()
    for verb in Verb:
        if scanner.take(verb.value):
            break
    else:
        return None
    if verb is Verb.REM:
        return Header(verb) if scanner.ended() else None
    if not scanner.skip():
        return None
    if verb is Verb.MV:
        destination = unquoted(row[scanner.at :].strip(_BLANKS))
        return Header(verb, destination=destination) if destination else None
    return _located(verb, scanner)


def _located(verb: Verb, scanner: _Scanner) -> Header | None:
    place = _place(scanner)
    if place is None or (verb is Verb.CUT and not isinstance(place, Span | BlockAt)):
        return None
    scanner.skip()
    register = None
    if scanner.take("@"):
        register = scanner.name()
        if register is None:
            return None
        scanner.skip()
    colon = scanner.take(":")
    return Header(verb, place, register, colon) if scanner.ended() else None


def _place(scanner: _Scanner) -> Place | None:
    if scanner.take("<"):
        scanner.skip()
        line = scanner.number()
        scanner.skip()
        # A star behind a gap in front of a line changes nothing: the block begins there.
        scanner.take("*")
        if line is None:
            return None
        return Head() if line == 1 else Before(line)
    if scanner.take(">"):
        scanner.skip()
        if scanner.take("$"):
            return Tail()
        line = scanner.number()
        if line is None:
            return None
        scanner.skip()
        return AfterBlock(line) if scanner.take("*") else After(line)
    return _lines(scanner)


def _lines(scanner: _Scanner) -> Place | None:
    first = scanner.number()
    if first is None:
        return None
    scanner.skip()
    if scanner.take("*"):
        return BlockAt(first)
    scanner.skip(_BETWEEN)
    if not scanner.digit_follows():
        return Span(first, first)
    last = scanner.number()
    return None if last is None else Span(first, last)


def read_bare_range(row: str) -> Span | None:
    """Return the range that stands alone with a colon and a real separator, as in `3.=4:`."""
    scanner = _Scanner(row)
    scanner.skip()
    first = scanner.number()
    start = scanner.at
    scanner.skip(_BETWEEN)
    separator = row[start : scanner.at].strip(_BLANKS)
    last = scanner.number() if separator and scanner.digit_follows() else None
    if first is None or last is None:
        return None
    scanner.skip()
    return Span(first, last) if scanner.take(":") and scanner.ended() else None


def lacks_verb(row: str) -> bool:
    """Tell whether a row would be a hunk header if a verb stood in front of it."""
    return read_header(f"PUT {row}") is not None


def looks_like_hunk(row: str) -> bool:
    """Tell whether a row was meant as a hunk, whether or not it is one."""
    return _VERB.match(row) is not None


def read_numbered(row: str) -> tuple[int, str] | None:
    """Return line and text of a row as a read shows it, `N:text` or `N|text`."""
    match = _NUMBERED.match(row)
    return (int(match[1]), row[match.end() :]) if match else None


def is_elision(row: str) -> bool:
    """Tell whether a row only stands for lines that a read left out."""
    text = row.strip(_BLANKS)
    if text.startswith(("…", "...")):
        return True
    if _COLLAPSED.match(row) is not None and ("…" in row or "..." in row):
        return True
    return _SHOWING.match(row) is not None


def is_notice(row: str) -> bool:
    """Tell whether a bracketed row is the notice of a read and no section header."""
    return _SHOWING.match(row) is not None


def is_foreign(row: str, *, inside_hunk: bool) -> bool:
    """Tell whether a row belongs to another patch format."""
    if _FOREIGN.match(row) is not None:
        return True
    return not inside_hunk and _DIFF_HEADER.match(row) is not None


def unquoted(text: str) -> str:
    """Take off one pair of quotes around a path."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text


def _match(pattern: re.Pattern[str], row: str, at: int) -> str:
    found = pattern.match(row, at)
    return found[0] if found else ""
