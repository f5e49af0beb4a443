"""May an edit of a text that has changed since be carried out, and where?

Everything must follow from a line diff of the retained and the live text; nothing is guessed. An
edit lands as a whole, moved by one distance, on lines that are all unchanged, stand among unchanged
neighbours, and lie in the same syntax. Otherwise it does not land.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from apps.domain.hashline.blocks import FixedPlace, Resolved
from apps.domain.hashline.lines import LineSet
from apps.domain.hashline.model import After, Before, Span
from apps.domain.hashline.myers import Run, common_runs
from apps.domain.hashline.syntax import Grammar, Node, SyntaxUnavailable
from apps.domain.hashline.text import has_tail_row, is_blank

_FEW = 16
"""So many lines are counted one by one sooner than all lines at once."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How a live text differs from the retained one, told in lines that both have."""

    runs: list[Run]

    @classmethod
    def between(cls, old: list[str], live: list[str]) -> Drift:
        """Compare two texts. The tail row is never a line that both have."""
        return cls(common_runs(_lines(old), _lines(live)))

    def move(self, lines: LineSet) -> int | None:
        """Return the one distance by which all these lines have moved, or None."""
        distances: set[int] = set()
        for first, last in lines.ranges:
            at = bisect_right(self.runs, first, key=lambda run: run[0]) - 1
            if at < 0:
                return None
            here, there, length = self.runs[at]
            # Lines that moved together stand in one run.
            if last >= here + length:
                return None
            distances.add(there - here)
        return next(iter(distances)) if len(distances) == 1 else None


def moved(
    resolved: Sequence[Resolved],
    old: list[str],
    live: list[str],
    *,
    path: str,
    old_text: str,
    live_text: str,
    drift: Drift,
    grammar: Grammar,
) -> tuple[list[Resolved], int] | None:
    """Return the hunks with the line numbers they have in the live text, and the distance."""
    anchors = anchors_of(resolved)
    starts = LineSet.of_lines(
        each.block.anchor
        for each in resolved
        if each.block is not None and isinstance(each.place, After)
    )
    distance = drift.move(anchors | starts)
    if distance is None or not _stand_among_their_own(anchors, distance, old, live, drift):
        return None
    lines = list(anchors)
    if not _lie_in_the_same_syntax(lines, distance, old, path, old_text, live_text, grammar):
        return None
    return [
        replace(each, place=_shifted(each.place, distance), block=None) for each in resolved
    ], distance


def anchors_of(resolved: Sequence[Resolved]) -> LineSet:
    """Return every line that the hunks name: whole ranges, and the lines beside gaps."""
    ranges: list[tuple[int, int]] = []
    for each in resolved:
        match each.place:
            case Span(first=first, last=last):
                ranges.append((first, last))
            case Before(line=line) | After(line=line):
                ranges.append((line, line))
            case _:
                pass
    return LineSet.of(ranges)


def _stand_among_their_own(
    anchors: LineSet, distance: int, old: list[str], live: list[str], drift: Drift
) -> bool:
    """Check the lines just outside each run of anchors.

    Beside a line whose text is the only one of its kind, one unchanged neighbour is enough; beside
    one that occurs elsewhere, every neighbour must be unchanged, and there must be one.
    """
    repeated = _repeated({old[line - 1] for line in anchors}, old, live)
    for first, last in anchors.ranges:
        neighbours = [line for line in (first - 1, last + 1) if 1 <= line <= len(old)]
        fitting = sum(drift.move(LineSet.of_lines([line])) == distance for line in neighbours)
        if fitting == 0:
            return False
        if fitting < len(neighbours) and not repeated.isdisjoint(old[first - 1 : last]):
            return False
    return True


def _repeated(texts: set[str], old: list[str], live: list[str]) -> set[str]:
    """Return which of these lines occur more than once in either text."""
    if len(texts) <= _FEW:
        return {text for text in texts if old.count(text) > 1 or live.count(text) > 1}
    in_old, in_live = Counter(old), Counter(live)
    return {text for text in texts if in_old[text] > 1 or in_live[text] > 1}


def _lie_in_the_same_syntax(
    lines: list[int],
    distance: int,
    old: list[str],
    path: str,
    old_text: str,
    live_text: str,
    grammar: Grammar,
) -> bool:
    solid = [line - 1 for line in lines if not is_blank(old[line - 1])]
    if not solid:
        return True
    try:
        before = grammar.survey(path, old_text, solid)
        now = grammar.survey(path, live_text, [row + distance for row in solid])
    except SyntaxUnavailable:
        # A grammar is known and gave no answer: that the place is the same cannot be proved.
        return False
    if before is None or now is None:
        return True
    live = live_text.split("\n")
    return all(
        _signature(before.chains.get(row, ()), old)
        == _signature(now.chains.get(row + distance, ()), live)
        for row in solid
    )


def _signature(chain: tuple[Node, ...], rows: list[str]) -> list[tuple[str, str]]:
    return [(node.kind, rows[node.start_row]) for node in chain if not node.error]


def _shifted(place: FixedPlace, distance: int) -> FixedPlace:
    match place:
        case Span(first=first, last=last):
            return Span(first + distance, last + distance)
        case Before(line=line):
            return Before(line + distance)
        case After(line=line):
            return After(line + distance)
        case _:
            return place


def _lines(rows: list[str]) -> list[str]:
    return rows[:-1] if has_tail_row(rows) else rows
