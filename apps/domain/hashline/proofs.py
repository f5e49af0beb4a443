"""What a refusal shows of a file, so that the next edit can be right; and what is then seen."""

from __future__ import annotations

from collections.abc import Sequence

from apps.domain.hashline.blocks import Resolved
from apps.domain.hashline.lines import LineSet
from apps.domain.hashline.model import After, Before, Span
from apps.domain.hashline.showing import shown_cost, without_secrets
from apps.domain.hashline.text import count_lines

MAX_SHOWN = 40
MAX_SHOWN_UNITS = 512
"""UTF-16 units of one line."""
MAX_SHOWN_CHARACTERS = 24_000

_CONTEXT = 2


def needed_lines(resolved: Sequence[Resolved]) -> LineSet:
    """Return the lines that an author must have seen: for a block only its anchor."""
    ranges: list[tuple[int, int]] = []
    for each in resolved:
        if each.block is not None:
            ranges.append((each.block.anchor, each.block.anchor))
            continue
        match each.place:
            case Span(first=first, last=last):
                ranges.append((first, last))
            case Before(line=line) | After(line=line):
                ranges.append((line, line))
            case _:
                pass
    return LineSet.of(ranges)


def show_missing(missing: LineSet, rows: list[str]) -> tuple[str, bool]:
    """Show lines that were never shown, and tell whether these are all, each in full."""
    lines = count_lines(rows)
    shown: list[str] = []
    room = MAX_SHOWN_CHARACTERS
    whole = len(missing) <= MAX_SHOWN
    for line in missing:
        if len(shown) == MAX_SHOWN:
            break
        if line > lines:
            whole = False
            break
        row = rows[line - 1]
        if not fits(row):
            whole = False
        entry = f"{line}:{clip_row(row)}"
        if (cost := shown_cost(entry)) > room:
            whole = False
            break
        room -= cost
        shown.append(entry)
    clean, untouched = without_secrets(shown)
    return "\n".join(clean), whole and len(untouched) == len(shown)


def show_around(anchors: LineSet, rows: list[str]) -> tuple[str, LineSet]:
    """Show the lines around anchors, these marked with a star; return which are shown in full."""
    lines = count_lines(rows)
    wanted: set[int] = set()
    for first, last in anchors.ranges:
        for line in range(max(1, first - _CONTEXT), min(lines, last + _CONTEXT) + 1):
            if len(wanted) >= MAX_SHOWN:
                break
            wanted.add(line)
    shown = sorted(wanted)
    clean, untouched = without_secrets(
        [f"{'*' if line in anchors else ''}{line}:{clip_row(rows[line - 1])}" for line in shown]
    )
    whole = (line for at, line in enumerate(shown) if at in untouched and fits(rows[line - 1]))
    return "\n".join(clean), LineSet.of_lines(whole)


def fits(row: str) -> bool:
    """Tell whether a row is short enough to be shown in full."""
    if len(row) > MAX_SHOWN_UNITS:
        return False
    return len(row.encode("utf-16-le", "surrogatepass")) <= 2 * MAX_SHOWN_UNITS


def clip_row(row: str) -> str:
    """Return a row as it is shown."""
    return row if fits(row) else row[: MAX_SHOWN_UNITS // 2] + "…"
