"""A desk for one author: files, what is remembered of them, and calls one after the other."""

from __future__ import annotations

from apps.domain.hashline import (
    Edited,
    Grammar,
    LineSet,
    Memory,
    Refused,
    SectionResult,
    edit,
    read_text,
    tag_of,
)
from apps.domain.hashline.text import count_lines, rows_of
from apps.sandbox.syntax.trees import TreeSitter

GRAMMAR: Grammar = TreeSitter()


class Desk:
    """Carries out what a call returns, as a workspace would."""

    def __init__(self, grammar: Grammar = GRAMMAR, **files: str) -> None:
        self.files: dict[str, str] = {}
        self.memory = Memory()
        self.grammar = grammar
        for name, content in files.items():
            self.put(name.replace("__", "/").replace("_", "."), content)

    def put(self, path: str, content: str, *, seen: LineSet | None = None) -> str:
        """Write a file outside Hashline, read it, and return its tag."""
        self.files[path] = content
        return self.read(path, seen=seen)

    def read(self, path: str, *, seen: LineSet | None = None) -> str:
        """Show lines of a file, all of them if none are named."""
        text = read_text(self.files[path]).text
        everything = LineSet.of([(1, count_lines(rows_of(text)))])
        self.memory = self.memory.remember(path, text, everything if seen is None else seen)
        return tag_of(text)

    def call(self, patch: str) -> Edited | Refused:
        """Work out a patch and carry it out if it is admitted."""
        result = edit(patch, files=self.files, memory=self.memory, grammar=self.grammar)
        self.memory = result.memory
        if isinstance(result, Edited):
            for path in result.removals:
                del self.files[path]
            self.files.update(result.writes)
        return result

    def done(self, patch: str) -> SectionResult:
        """Carry out a patch of one section, which must be admitted."""
        result = self.call(patch)
        assert isinstance(result, Edited), result
        (section,) = result.sections
        return section

    def refused(self, patch: str) -> Refused:
        """Work out a patch that must be refused, and check that nothing is written."""
        before = dict(self.files)
        result = self.call(patch)
        assert isinstance(result, Refused), result
        assert self.files == before
        return result
