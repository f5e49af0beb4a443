"""Which lines does `N*` mean? The syntax that begins on line N, as large as it gets there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from apps.domain.hashline.model import (
    After,
    AfterBlock,
    Before,
    BlockAt,
    Head,
    Hunk,
    Paste,
    Put,
    Span,
    Tail,
)
from apps.domain.hashline.refusals import Caution, Refusal, Rule
from apps.domain.hashline.syntax import Grammar, Node, Survey, SyntaxUnavailable
from apps.domain.hashline.text import is_blank

_CLOSER = re.compile(r"[ \t]*[)\]}]+[;,]?[ \t]*")
_SEARCH = 64
_CONTEXT = 2
_SHOWN = 200

# Mere lists of statements. They begin where their first statement does, and whoever names that
# statement does not mean the list.
_LISTS = frozenset({"block", "statement_list", "statements", "body_statement", "indented_block"})

FixedPlace = Span | Before | After | Head | Tail


class BlockOp(StrEnum):
    """What was done with a block."""

    REPLACE = "replace"
    INSERT_AFTER = "insert_after"
    PASTE_AFTER = "paste_after"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class BlockResolution:
    """A block that was found, told so that its author can notice a wrong anchor."""

    op: BlockOp
    anchor: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Resolved:
    """A hunk whose place is known by line numbers."""

    hunk: Hunk
    place: FixedPlace
    block: BlockResolution | None = None


def is_closer(row: str) -> bool:
    """Tell whether a row only closes brackets."""
    return _CLOSER.fullmatch(row) is not None


def find_block(survey: Survey, line: int) -> Span | None:
    """Return the block that begins on a line, or None."""
    chain = survey.chains.get(line - 1, ())
    if not chain or chain[0].start_row != line - 1:
        return None
    node = chain[0]
    for parent in chain[1:]:
        if parent.start_row != line - 1 or _is_list_from(parent, node):
            break
        node = parent
    return None if node.broken else Span(line, max(line, node.last_row + 1))


def _is_list_from(parent: Node, node: Node) -> bool:
    return parent.kind in _LISTS and parent.start_column == node.start_column


def resolve(
    hunks: Sequence[Hunk], rows: Sequence[str], *, path: str, text: str, grammar: Grammar
) -> tuple[list[Resolved], list[Caution]]:
    """Find every block of a section in one text, or refuse."""
    wanted = sorted(
        {hunk.place.line for hunk in hunks if isinstance(hunk.place, BlockAt | AfterBlock)}
    )
    survey = _ask(grammar, path, text, wanted) if wanted else None
    finder = _Finder(rows, survey, path=path, text=text, grammar=grammar)
    return [finder.resolve(hunk) for hunk in hunks], finder.cautions


class _Finder:
    def __init__(
        self, rows: Sequence[str], survey: Survey | None, *, path: str, text: str, grammar: Grammar
    ) -> None:
        self._rows = rows
        self._survey = survey
        self._path = path
        self._text = text
        self._grammar = grammar
        self.cautions: list[Caution] = []

    def resolve(self, hunk: Hunk) -> Resolved:
        place = hunk.place
        if not isinstance(place, BlockAt | AfterBlock):
            return Resolved(hunk, place)
        block = find_block(self._survey, place.line) if self._survey is not None else None
        if block is None:
            if isinstance(place, BlockAt):
                raise self._unresolved(hunk, place.line)
            closes = place.line <= len(self._rows) and is_closer(self._rows[place.line - 1])
            self.cautions.append(
                Caution.BLOCK_INSERT_AT_CLOSER if closes else Caution.BLOCK_INSERT_UNRESOLVED
            )
            return Resolved(hunk, After(place.line))
        if block.first == block.last:
            raise Refusal(
                Rule.BLOCK_SINGLE_LINE,
                f"Line {place.line} is a statement of one line and no block; name it as a range or"
                " gap.",
                path=self._path,
                row=hunk.row,
                line=place.line,
            )
        found = BlockResolution(_op(hunk), place.line, block.first, block.last)
        return Resolved(hunk, block if isinstance(place, BlockAt) else After(block.last), found)

    def _unresolved(self, hunk: Hunk, line: int) -> Refusal:
        return Refusal(
            Rule.BLOCK_UNRESOLVED,
            f"No block begins on line {line}. {self._hint(line)}",
            path=self._path,
            row=hunk.row,
            line=line,
            shown=self._around(line),
        )

    def _hint(self, line: int) -> str:
        if self._survey is None:
            return "No grammar is known for this file; name the lines as a range."
        if line > len(self._rows):
            return f"The file has {len(self._rows)} rows."
        blank = is_blank(self._rows[line - 1])
        below = list(range(line + 1, min(line + _SEARCH, len(self._rows)) + 1))
        above = list(range(line - 1, max(line - _SEARCH, 0), -1))
        near = below if blank else above
        survey = _ask(self._grammar, self._path, self._text, sorted(near))
        for other in near:
            block = find_block(survey, other) if survey is not None else None
            if block is None or block.first == block.last:
                continue
            if blank:
                return f"The line is blank; the next block is {other}* (to line {block.last})."
            if block.last >= line:
                return f"The block around it is {other}* (to line {block.last})."
        return "Name the lines as a range."

    def _around(self, line: int) -> str:
        first = max(1, line - _CONTEXT)
        return "\n".join(
            f"{number}:{row[:_SHOWN]}"
            for number, row in enumerate(self._rows[first - 1 : line + _CONTEXT], start=first)
        )


def _ask(grammar: Grammar, path: str, text: str, lines: Sequence[int]) -> Survey | None:
    try:
        return grammar.survey(path, text, [line - 1 for line in lines])
    except SyntaxUnavailable as why:
        raise Refusal(
            Rule.BLOCK_UNRESOLVED,
            f"The file could not be parsed ({why}); name the lines as a range.",
            path=path,
        ) from None


def _op(hunk: Hunk) -> BlockOp:
    if isinstance(hunk.place, AfterBlock):
        return BlockOp.INSERT_AFTER if isinstance(hunk, Put) else BlockOp.PASTE_AFTER
    return BlockOp.REPLACE if isinstance(hunk, Put | Paste) else BlockOp.CUT
