"""What do hunks do to rows? First every hunk becomes a plain change, then all are applied at once.

Nothing here renumbers anything: changes speak of the text before any of them, and the new text is
put together in one pass over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apps.domain.hashline.blocks import BlockResolution, Resolved
from apps.domain.hashline.model import After, Before, Cut, Head, Paste, Put, Span, Tail
from apps.domain.hashline.refusals import Caution, Refusal, Rule
from apps.domain.hashline.registers import Registers
from apps.domain.hashline.text import MAX_FILE_BYTES, count_lines, has_tail_row


@dataclass(frozen=True, slots=True)
class Replacement:
    """Lines that go, and the rows that come at the first of them."""

    first: int
    last: int
    rows: tuple[str, ...]
    written: bool
    """The rows were written in the patch; they came from no register."""


@dataclass(frozen=True, slots=True)
class Insertion:
    """Rows that come into a gap."""

    place: Before | After | Head | Tail
    rows: tuple[str, ...]
    written: bool
    block: BlockResolution | None = None


Change = Replacement | Insertion


@dataclass(frozen=True, slots=True)
class Built:
    """New rows, and where each run of them comes from."""

    rows: list[str]
    kept: list[tuple[int, int, int]]
    """Runs of lines that stayed: first line before, first line now, length."""
    written: list[tuple[int, int]]
    """Runs of new lines that stood in the patch: first and last line now."""


def check_bounds(resolved: Sequence[Resolved], rows: Sequence[str], *, path: str) -> None:
    """Refuse numbers beyond the rows of the text."""
    for each in resolved:
        line = 0
        match each.place:
            case Span(last=last):
                line = last
            case Before(line=anchor) | After(line=anchor):
                line = anchor
            case _:
                continue
        if line > len(rows):
            lines = count_lines(list(rows))
            raise Refusal(
                Rule.LINE_OUT_OF_RANGE,
                f"Line {line} does not exist: the file has {lines} lines. For its end write"
                " 'PUT >$:'.",
                path=path,
                row=each.hunk.row,
                line=line,
            )


def expand(
    resolved: Sequence[Resolved], rows: list[str], registers: Registers, *, path: str
) -> tuple[list[Change], list[Caution]]:
    """Turn hunks into changes, filling and reading registers in the order written."""
    changes: list[Change] = []
    cautions: list[Caution] = []
    lines = count_lines(rows)
    size = 0
    for each in resolved:
        hunk, place = each.hunk, each.place
        if isinstance(hunk, Cut):
            if isinstance(place, Span):
                registers.cut(hunk, rows[place.first - 1 : min(place.last, lines)])
            new: tuple[str, ...] | None = ()
        elif isinstance(hunk, Paste):
            new = registers.paste(hunk, path=path)
        else:
            new = hunk.body
        if new is None:
            cautions.append(Caution.EMPTY_NAMED_REGISTER)
            continue
        size += sum(map(len, new)) + len(new)
        if size > MAX_FILE_BYTES:
            # Told before the rows are put together: a register may be pasted thousands of times.
            raise Refusal(
                Rule.FILE_TOO_LARGE,
                f"The hunks write more than the {MAX_FILE_BYTES} bytes that a file may have.",
                path=path,
                row=hunk.row,
            )
        written = isinstance(hunk, Put)
        if not isinstance(place, Span):
            changes.append(Insertion(place, new, written, each.block))
        elif place.first <= lines:
            # The final newline is never taken: the tail row only counts as selected.
            changes.append(Replacement(place.first, min(place.last, lines), new, written))
        elif new:
            changes.append(Insertion(Before(place.first), new, written))
    return changes, cautions


def build(rows: list[str], changes: Sequence[Change]) -> Built:
    """Return the rows after all changes.

    For one line the order is: rows put before it, rows that replace, the line unless it goes, rows
    put after it; the head comes before everything, the tail before the tail row.
    """
    empty = rows == [""]
    gone = [(change.first, change.last) for change in changes if isinstance(change, Replacement)]
    if empty and any(_is_edge(change) for change in changes):
        gone.append((1, 1))
    weaver = _Weaver(rows, sorted(set(gone)))
    ordered = sorted(
        (change for change in changes if change.rows), key=lambda change: _position(change, rows)
    )
    for change in ordered:
        line, slot = _position(change, rows)
        weaver.copy_through(line if slot >= _BEHIND else line - 1)
        weaver.insert(change)
    weaver.copy_through(len(rows))
    return weaver.built


def first_changed_line(changes: Sequence[Change], rows: list[str]) -> int | None:
    """Return the first line that any change names, in the numbers before them."""
    lines: list[int] = []
    for change in changes:
        if isinstance(change, Replacement):
            lines.append(change.first)
        elif isinstance(change.place, Before | After):
            lines.append(change.place.line)
        elif isinstance(change.place, Head):
            lines.append(1)
        else:
            lines.append(len(rows) if has_tail_row(rows) or rows == [""] else len(rows) + 1)
    return min(lines, default=None)


_BEHIND = 3


def _position(change: Change, rows: list[str]) -> tuple[int, int]:
    if isinstance(change, Replacement):
        return change.first, 1
    match change.place:
        case Head():
            return 0, 0
        case Before(line=line):
            return line, 0
        case After(line=line):
            return line, _BEHIND
        case Tail():
            return (len(rows), 1) if has_tail_row(rows) else (len(rows), _BEHIND + 1)


def _is_edge(change: Change) -> bool:
    return isinstance(change, Insertion) and isinstance(change.place, Head | Tail)


class _Weaver:
    """Copies what stays and puts in what comes, from top to bottom."""

    def __init__(self, rows: list[str], gone: list[tuple[int, int]]) -> None:
        self._rows = rows
        self._gone = gone
        self._next_gone = 0
        self._next = 1
        self.built = Built([], [], [])

    def copy_through(self, line: int) -> None:
        while self._next <= line:
            if self._next_gone < len(self._gone):
                first, last = self._gone[self._next_gone]
                if first <= self._next:
                    self._next = max(self._next, last + 1)
                    self._next_gone += 1
                    continue
                stop = min(line, first - 1)
            else:
                stop = line
            self._keep(self._next, stop)
            self._next = stop + 1

    def insert(self, change: Change) -> None:
        built = self.built
        first = len(built.rows) + 1
        built.rows.extend(change.rows)
        if change.written:
            built.written.append((first, len(built.rows)))

    def _keep(self, first: int, last: int) -> None:
        built = self.built
        here = len(built.rows) + 1
        built.rows.extend(self._rows[first - 1 : last])
        length = last - first + 1
        if built.kept:
            before, now, count = built.kept[-1]
            if before + count == first and now + count == here:
                built.kept[-1] = (before, now, count + length)
                return
        built.kept.append((first, here, length))
