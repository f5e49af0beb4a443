"""The parts of a patch: places in a file, and what a hunk does there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Lines `first` to `last`, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class BlockAt:
    """The block that begins on a line."""

    line: int


@dataclass(frozen=True, slots=True)
class Before:
    """The gap in front of a line."""

    line: int


@dataclass(frozen=True, slots=True)
class After:
    """The gap behind a line."""

    line: int


@dataclass(frozen=True, slots=True)
class AfterBlock:
    """The gap behind the block that begins on a line."""

    line: int


@dataclass(frozen=True, slots=True)
class Head:
    """The gap in front of everything; it names no line."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The gap behind everything; it names no line."""


Gap = Before | After | AfterBlock | Head | Tail
Place = Span | BlockAt | Gap


@dataclass(frozen=True, slots=True)
class Put:
    """Write body rows over lines or a block, or into a gap. `row` is where the hunk begins."""

    place: Place
    body: tuple[str, ...]
    row: int


@dataclass(frozen=True, slots=True)
class Paste:
    """Write a register's lines over lines or a block, or into a gap. No name: the anonymous one."""

    place: Place
    register: str | None
    row: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Take lines or a block out and keep them in a register."""

    place: Span | BlockAt
    register: str | None
    row: int


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove the file."""

    row: int


@dataclass(frozen=True, slots=True)
class Move:
    """Write the result elsewhere and remove the source."""

    destination: str
    row: int


Hunk = Put | Paste | Cut
FileOp = Remove | Move
