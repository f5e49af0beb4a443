"""How does one section change a text? All its hunks at once, on numbers that are settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apps.domain.hashline.blocks import Resolved
from apps.domain.hashline.changes import Built, build, check_bounds, expand, first_changed_line
from apps.domain.hashline.corrections import correct
from apps.domain.hashline.parser import Parsed
from apps.domain.hashline.refusals import Caution
from apps.domain.hashline.registers import Registers
from apps.domain.hashline.scene import Scene
from apps.domain.hashline.snapshots import Snapshot
from apps.domain.hashline.syntax import Grammar
from apps.domain.hashline.text import FileText


@dataclass(frozen=True, slots=True)
class Work:
    """One section: its file, the text that its tag names, and its hunks."""

    path: str
    destination: str | None
    parsed: Parsed
    file: FileText
    base: Snapshot
    cautions: tuple[Caution, ...]
    """What reading the section and finding its file had to tolerate."""

    @property
    def fresh(self) -> bool:
        """Tell whether the file still reads as it did; the tag would not tell."""
        return self.file.text == self.base.text


@dataclass(frozen=True, slots=True)
class Applied:
    """A text after a section, and how it came about."""

    text: str
    rows: list[str]
    built: Built
    first_changed: int | None
    cautions: tuple[Caution, ...]


def apply(
    work: Work,
    resolved: Sequence[Resolved],
    rows: list[str],
    registers: Registers,
    grammar: Grammar,
) -> Applied:
    """Carry out hunks on the live rows of a file, or refuse; registers change as the hunks say."""
    check_bounds(resolved, rows, path=work.path)
    changes, cautions = expand(resolved, rows, registers, path=work.path)
    text = work.file.text
    scene = Scene(path=work.path, text=text, rows=rows, grammar=grammar)
    changes, corrections = correct(changes, scene)
    built = build(rows, changes)
    new_text = "\n".join(built.rows)
    cautions += corrections
    if new_text != text and scene.parses(text) and scene.parses(new_text) is False:
        cautions.append(Caution.SYNTAX_BROKEN)
    return Applied(new_text, rows, built, first_changed_line(changes, rows), tuple(cautions))
