"""Repair common slips of an edit, always with a warning, never on a line that no hunk names."""

from __future__ import annotations

from collections.abc import Sequence

from apps.domain.hashline.boundary import repair
from apps.domain.hashline.changes import Change, Replacement
from apps.domain.hashline.echoes import Echo, settle_echo
from apps.domain.hashline.landing import escape_opener, land, restore_indent
from apps.domain.hashline.model import After
from apps.domain.hashline.refusals import Caution
from apps.domain.hashline.scene import Scene, named_lines


def correct(changes: Sequence[Change], scene: Scene) -> tuple[list[Change], list[Caution]]:
    """Return the changes as they were most likely meant, with a warning for each correction."""
    corrected = list(changes)
    cautions: list[Caution] = []
    ambiguous: dict[int, Echo] = {}
    named = named_lines(corrected)
    for index, change in enumerate(corrected):
        if not change.written or not change.rows:
            continue
        if isinstance(change, Replacement):
            indented = restore_indent(change, scene)
            if indented is not None:
                cautions.append(Caution.INDENT_RESTORED)
            settled = settle_echo(indented or change, scene, named)
            corrected[index] = settled.change
            if settled.dropped:
                cautions.append(Caution.BOUNDARY_ECHO_DROPPED)
            if settled.ambiguous is not None:
                ambiguous[index] = settled.ambiguous
        elif isinstance(change.place, After) and change.place.line <= scene.lines:
            moved = land(change, change.place, scene, named)
            if moved is None and change.block is None:
                others = [*corrected[:index], *corrected[index + 1 :]]
                moved = escape_opener(change, change.place, scene, others)
            if moved is not None:
                corrected[index], caution = moved
                cautions.append(caution)
    repaired = repair(corrected, ambiguous, scene)
    if repaired is not None:
        corrected = repaired
        cautions.append(Caution.BOUNDARY_REPAIRED)
    return corrected, list(dict.fromkeys(cautions))
