"""Show what changed: a unified diff, cut to a bound, that knows which lines it showed in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from apps.domain.hashline.lines import LineSet
from apps.domain.hashline.myers import Run, common_runs
from apps.domain.hashline.showing import shown_cost, without_secrets
from apps.domain.hashline.text import count_lines, has_tail_row

CONTEXT = 3
MAX_DIFF_ROWS = 240
MAX_DIFF_CHARACTERS = 20_000
"""For all files of a call together."""
MAX_ROW = 400
_REFINE_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Diff:
    """The shown diff, the lines of the new text that it shows in full, and what it leaves out."""

    text: str
    shown: LineSet
    left_out: int
    """So many rows did not fit."""


@dataclass(frozen=True, slots=True)
class _Region:
    """Lines `old_first` up to `old_end` became `new_first` up to `new_end`, ends not included."""

    old_first: int
    old_end: int
    new_first: int
    new_end: int


def unified(
    old: list[str],
    new: list[str],
    kept: Sequence[Run],
    *,
    source: str,
    target: str,
    room: int = MAX_DIFF_CHARACTERS,
) -> Diff:
    """Return the bounded diff of two texts whose common runs are known."""
    writer = _Writer(old, new, room)
    for group in _groups(_regions(old, new, kept)):
        writer.write(group)
    if not writer.rows and not writer.left_out:
        return Diff("", LineSet(), 0)
    head = [f"--- a/{source}", f"+++ b/{target}"]
    foot = [f"… {writer.left_out} more rows of this diff"] if writer.left_out else []
    rows, untouched = without_secrets(writer.rows)
    seen = LineSet.of_lines(line for at, line in writer.shown.items() if at in untouched)
    return Diff("\n".join([*head, *rows, *foot]), seen, writer.left_out)


def _regions(old: list[str], new: list[str], kept: Sequence[Run]) -> Iterator[_Region]:
    """Return what lies between the kept runs, without lines that came back as they were."""
    before, now = 1, 1
    for here, there, length in (*kept, (len(old) + 1, len(new) + 1, 0)):
        if here > before or there > now:
            yield from _refined(old, new, _Region(before, here, now, there))
        before, now = here + length, there + length


def _refined(old: list[str], new: list[str], region: _Region) -> Iterator[_Region]:
    gone = old[region.old_first - 1 : region.old_end - 1]
    come = new[region.new_first - 1 : region.new_end - 1]
    before, now = 0, 0
    runs = common_runs(gone, come, steps=_REFINE_STEPS)
    for here, there, length in (*runs, (len(gone) + 1, len(come) + 1, 0)):
        if here - 1 > before or there - 1 > now:
            yield _Region(
                region.old_first + before,
                region.old_first + here - 1,
                region.new_first + now,
                region.new_first + there - 1,
            )
        before, now = here - 1 + length, there - 1 + length


def _groups(regions: Iterator[_Region]) -> Iterator[list[_Region]]:
    """Put regions together whose contexts would touch."""
    group: list[_Region] = []
    for region in regions:
        if group and region.old_first - group[-1].old_end > 2 * CONTEXT:
            yield group
            group = []
        group.append(region)
    if group:
        yield group


class _Writer:
    def __init__(self, old: list[str], new: list[str], room: int) -> None:
        self._old = old
        self._new = new
        self._old_lines = count_lines(old)
        self._new_lines = count_lines(new)
        self._room = room
        self.rows: list[str] = []
        self.shown: dict[int, int] = {}
        self.left_out = 0

    def write(self, group: list[_Region]) -> None:
        first, last = group[0], group[-1]
        lead = min(CONTEXT, first.old_first - 1, first.new_first - 1)
        trail = max(0, min(CONTEXT, self._old_lines - last.old_end + 1))
        start, end = first.old_first - lead, last.old_end + trail
        new_start, new_end = first.new_first - lead, last.new_end + trail
        self._add(f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@", None, whole=False)
        at, new_at = start, new_start
        for region in group:
            self._context(at, region.old_first, new_at)
            for line in range(region.old_first, region.old_end):
                self._line("-", self._old, line, None)
            for line in range(region.new_first, region.new_end):
                self._line("+", self._new, line, line)
            at, new_at = region.old_end, region.new_end
        self._context(at, end, new_at)

    def _context(self, first: int, end: int, new_first: int) -> None:
        for line in range(first, end):
            self._line(" ", self._old, line, new_first + line - first)

    def _line(self, sign: str, rows: list[str], line: int, now: int | None) -> None:
        if line == len(rows) and has_tail_row(rows):
            return
        row = rows[line - 1]
        whole = len(row) <= MAX_ROW
        self._add(sign + (row if whole else row[:MAX_ROW] + "…"), now, whole=whole)
        if line == len(rows):
            self._add("\\ No newline at end of file", None, whole=False)

    def _add(self, row: str, now: int | None, *, whole: bool) -> None:
        cost = shown_cost(row)
        if self.left_out or len(self.rows) >= MAX_DIFF_ROWS or cost > self._room:
            self.left_out += 1
            return
        self._room -= cost
        self.rows.append(row)
        if whole and now is not None:
            self.shown[len(self.rows) - 1] = now


def _range(first: int, end: int) -> str:
    count = end - first
    return f"{first - 1 if count == 0 else first},{count}"
