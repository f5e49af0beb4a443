"""What does a read show, and which lines has its reader then seen?"""

from __future__ import annotations

from dataclasses import dataclass

from apps.domain.hashline.lines import LineSet
from apps.domain.hashline.showing import shown_cost, without_secrets
from apps.domain.hashline.text import count_lines, rows_of, tag_of

MAX_VIEW_LINES = 2_000
MAX_VIEW_CHARACTERS = 28_000
MAX_VIEW_ROW = 2_000


@dataclass(frozen=True, slots=True)
class View:
    """A window of a text under its header; `seen` holds the lines that it shows in full."""

    text: str
    tag: str
    seen: LineSet
    first: int
    last: int
    lines: int


def view(path: str, text: str, *, first: int = 1, count: int = MAX_VIEW_LINES) -> View:
    """Show a window of a normalised text, numbered, cut to a bound."""
    rows = rows_of(text)
    lines = count_lines(rows)
    tag = tag_of(text)
    shown: list[str] = []
    seen: dict[int, int] = {}
    room = MAX_VIEW_CHARACTERS
    start = max(1, first)
    last = start - 1
    for line in range(start, min(lines, start + min(count, MAX_VIEW_LINES) - 1) + 1):
        row = rows[line - 1]
        whole = len(row) <= MAX_VIEW_ROW
        entry = f"{line}:{row if whole else row[:MAX_VIEW_ROW] + '…'}"
        if (cost := shown_cost(entry)) > room:
            break
        room -= cost
        shown.append(entry)
        last = line
        if whole:
            seen[len(shown) - 1] = line
    shown, untouched = without_secrets(shown)
    shown.insert(0, f"[{path}#{tag}]")
    if start > lines or last < lines or start > 1:
        shown.append(f"[showing lines {start}-{last} of {lines}]")
    shown_whole = LineSet.of_lines(line for at, line in seen.items() if at in untouched)
    return View("\n".join(shown), tag, shown_whole, start, last, lines)
