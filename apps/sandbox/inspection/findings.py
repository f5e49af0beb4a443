"""What may be said of a file: that it is unfit, or what there is to look at, within bounds."""

from __future__ import annotations

from typing import Any, Final

MAX_PARTS: Final = 40
MAX_BLOCKS: Final = 300
MAX_ROWS: Final = 60
MAX_COLUMNS: Final = 20
MAX_CELL: Final = 300
MAX_TEXT: Final = 2_000
MAX_CHARACTERS: Final = 60_000

Block = dict[str, Any]


class Unfit(Exception):
    """The file is not what its name says, or holds what no file may hold."""


def plain(text: str) -> str:
    """Return text without what a page or a terminal could not show."""
    return "".join(one if one in "\n\t" or one.isprintable() else "\ufffd" for one in text)


def clipped(text: str, limit: int) -> str:
    """Return text that is no longer than the limit."""
    text = plain(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def count(number: int, what: str) -> str:
    """Say how many there are of something."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


class Drawing:
    """What there is to look at in one file; whatever exceeds its bounds is left out and said."""

    def __init__(self) -> None:
        self.summary = ""
        self.cut = False
        self._parts: list[dict[str, Any]] = []
        self._blocks = 0
        self._left = MAX_CHARACTERS

    @property
    def full(self) -> bool:
        """Whether nothing more is taken."""
        return self._left <= 0 or self._blocks >= MAX_BLOCKS

    def part(self, title: str = "") -> bool:
        """Begin a part, such as a sheet or a slide; False where there is no room for it."""
        if len(self._parts) >= MAX_PARTS or self.full:
            self.cut = True
            return False
        self._parts.append({"title": self._take(title, MAX_CELL), "blocks": []})
        return True

    def text(self, text: str, kind: str = "text", limit: int = MAX_TEXT) -> None:
        """Add a paragraph, a heading or a source text."""
        if text.strip():
            self._add({"kind": kind, "text": self._take(text, limit)})

    def lines(self, lines: list[str]) -> None:
        """Add a list."""
        kept = [self._take(line, MAX_TEXT) for line in lines[:MAX_ROWS] if line.strip()]
        self.cut = self.cut or len(lines) > MAX_ROWS
        if kept:
            self._add({"kind": "list", "lines": kept})

    def table(self, rows: list[list[str]]) -> None:
        """Add rows of cells."""
        self.cut = self.cut or len(rows) > MAX_ROWS or any(len(r) > MAX_COLUMNS for r in rows)
        kept = [
            [self._take(cell, MAX_CELL) for cell in row[:MAX_COLUMNS]] for row in rows[:MAX_ROWS]
        ]
        if kept:
            self._add({"kind": "table", "rows": kept})

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"summary": clipped(self.summary, MAX_CELL), "parts": self._parts, "cut": self.cut}

    def _add(self, block: Block) -> None:
        if self.full:
            self.cut = True
            return
        if not self._parts:
            self._parts.append({"title": "", "blocks": []})
        self._parts[-1]["blocks"].append(block)
        self._blocks += 1

    def _take(self, text: str, limit: int) -> str:
        room = max(min(limit, self._left), 1)
        self.cut = self.cut or len(text) > room
        kept = clipped(text, room)
        self._left -= len(kept)
        return kept
