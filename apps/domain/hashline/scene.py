"""The text that a section changes, with what syntax says of it. Corrections look only at this."""

from __future__ import annotations

from collections.abc import Sequence

from apps.domain.hashline.changes import Change, Insertion, Replacement, build
from apps.domain.hashline.lines import LineSet
from apps.domain.hashline.model import After, Before
from apps.domain.hashline.syntax import Grammar, Node, Survey, SyntaxUnavailable
from apps.domain.hashline.text import count_lines

SYNTAX_LIMIT = 128 * 1024
"""Longer texts are edited as written, without corrections and advice that need a whole parse."""
MAX_QUESTIONS = 64
"""So often is a grammar asked about one section; what is left over stays as it was written."""


class Scene:
    """One text under change, and the grammar that knows it."""

    def __init__(self, *, path: str, text: str, rows: list[str], grammar: Grammar) -> None:
        self.path = path
        self.text = text
        self.rows = rows
        self.lines = count_lines(rows)
        self._grammar = grammar
        self._questions = 0

    def row(self, line: int) -> str:
        """Return one line, counted from 1."""
        return self.rows[line - 1]

    def chain(self, line: int) -> tuple[Node, ...]:
        """Return the syntax over a line's first character; nothing where there is no answer."""
        survey = self._survey(self.text, [line - 1])
        return survey.chains.get(line - 1, ()) if survey is not None else ()

    def parses(self, text: str) -> bool | None:
        """Tell whether a text is whole in the file's language; None where nobody can tell."""
        survey = self._survey(text, ())
        if survey is None:
            return None
        # An empty file is whole in no language: whoever empties one is told.
        return bool(text) and not survey.broken

    def is_one_construct(self, rows: Sequence[str]) -> bool:
        """Tell whether rows are, for themselves, one complete piece of the file's language."""
        survey = self._survey("\n".join(rows) + "\n", ())
        return survey is not None and not survey.broken and survey.constructs == 1

    def after(self, changes: Sequence[Change]) -> str:
        """Return the text as it would be after these changes."""
        return "\n".join(build(self.rows, changes).rows)

    def _survey(self, text: str, rows: Sequence[int]) -> Survey | None:
        if len(text) > SYNTAX_LIMIT or self._questions == MAX_QUESTIONS:
            return None
        self._questions += 1
        try:
            return self._grammar.survey(self.path, text, rows)
        except SyntaxUnavailable:
            # A correction is a courtesy: without an answer the edit stands as it was written.
            return None


def named_lines(changes: Sequence[Change]) -> LineSet:
    """Return every line that some change names."""
    ranges: list[tuple[int, int]] = []
    for change in changes:
        if isinstance(change, Replacement):
            ranges.append((change.first, change.last))
        elif isinstance(change, Insertion) and isinstance(change.place, Before | After):
            ranges.append((change.place.line, change.place.line))
    return LineSet.of(ranges)
