"""What does Hashline want to know about syntax, and from whom?

A grammar is asked about a few rows of one text and answers with values. Grammars are native code
that reads text which nobody vouches for, so whoever runs an edit decides where they run; the engine
knows only the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class SyntaxUnavailable(Exception):
    """A grammar is known for the file, and it gave no answer: too slow, too deep, or gone."""


@dataclass(frozen=True, slots=True)
class Node:
    """A piece of syntax: rows count from 0, `end_column` is that of the first byte after it."""

    kind: str
    start_row: int
    start_column: int
    end_row: int
    end_column: int
    broken: bool
    """It holds a syntax error."""
    error: bool = False
    """It is itself the mark of an error."""

    @property
    def last_row(self) -> int:
        """The last row that holds anything of the node."""
        return self.end_row - 1 if self.end_column == 0 else self.end_row


@dataclass(frozen=True, slots=True)
class Survey:
    """What a grammar says of a text.

    `chains` gives, for each row that was asked about and is not blank, the named nodes over its
    first character, the innermost first, without the root.
    """

    broken: bool
    constructs: int
    """How many named nodes stand directly below the root, comments not counted."""
    chains: Mapping[int, tuple[Node, ...]] = field(default_factory=dict)


class Grammar(Protocol):
    """Whoever parses texts."""

    def survey(self, path: str, text: str, rows: Sequence[int]) -> Survey | None:
        """Answer for these rows, None where no grammar is known, or raise SyntaxUnavailable."""
        ...


class NoGrammar:
    """A grammar that knows no language: every file is plain text."""

    def survey(self, path: str, text: str, rows: Sequence[int]) -> Survey | None:
        """Return None."""
        return None
