"""What comes back from an edit: everything that is to be written, or why nothing is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from apps.domain.hashline.blocks import BlockOp, BlockResolution
from apps.domain.hashline.diff import Diff
from apps.domain.hashline.refusals import CAUTIONS, Caution, Rule
from apps.domain.hashline.snapshots import Memory


class FileOutcome(StrEnum):
    """What became of one file."""

    UPDATE = "update"
    DELETE = "delete"
    NOOP = "noop"


@dataclass(frozen=True, slots=True)
class SectionResult:
    """What one section did. `path` is where the text is now, or was."""

    source: str
    path: str
    outcome: FileOutcome
    tag: str | None = None
    first_changed_line: int | None = None
    cautions: tuple[Caution, ...] = ()
    blocks: tuple[BlockResolution, ...] = ()
    diff: Diff | None = None

    @property
    def moved_to(self) -> str | None:
        """Where the file went, if it went anywhere."""
        return self.path if self.path != self.source else None


@dataclass(frozen=True, slots=True)
class Edited:
    """A call that may be committed, as a whole: contents as on disk, removals, and the memory."""

    sections: tuple[SectionResult, ...]
    writes: Mapping[str, str]
    removals: tuple[str, ...]
    memory: Memory

    def answer(self) -> str:
        """Say what was done, bounded, in the words that the reader needs for the next edit."""
        return "\n\n".join(_told(section) for section in self.sections)


@dataclass(frozen=True, slots=True)
class Refused:
    """A call of which nothing is written. The memory still notes what the refusal showed."""

    rule: Rule
    sentence: str
    path: str
    row: int | None
    line: int | None
    shown: str
    memory: Memory

    def answer(self) -> str:
        """Say why, and what to do about it."""
        where = f" ({self.path}" + (f", row {self.row}" if self.row else "") + ")"
        head = f"Refused, {self.rule.value}{where if self.path else ''}: {self.sentence}"
        return f"{head} Nothing was written." + (f"\n{self.shown}" if self.shown else "")


_DONE = {
    BlockOp.REPLACE: "replaced",
    BlockOp.INSERT_AFTER: "inserted after",
    BlockOp.PASTE_AFTER: "pasted after",
    BlockOp.CUT: "cut",
}


def _told(section: SectionResult) -> str:
    rows: list[str] = []
    if section.outcome is FileOutcome.DELETE:
        rows.append(f"Removed {section.path}.")
    elif section.outcome is FileOutcome.NOOP:
        rows.append(f"Nothing changed: {section.path} already reads so.")
    else:
        if section.moved_to is not None:
            rows.append(f"Moved {section.source} to {section.path}.")
        rows.append(f"[{section.path}#{section.tag}]")
    rows += [
        f"Block {block.anchor}*: lines {block.first}-{block.last} {_DONE[block.op]}."
        for block in section.blocks
    ]
    if section.diff is not None and section.diff.text:
        rows.append(section.diff.text)
    rows += [
        f"Warning, {caution.value}: {CAUTIONS[caution]}"
        for caution in dict.fromkeys(section.cautions)
    ]
    return "\n".join(rows)
