"""Edit one version of an artifact: the same language, cut down to ranges on exactly that version.

There is nothing to recover here: a version never changes, and its edit becomes the next one.
"""

from __future__ import annotations

from dataclasses import dataclass

from apps.domain.hashline.blocks import Resolved
from apps.domain.hashline.changes import build, check_bounds, expand
from apps.domain.hashline.diff import Diff, unified
from apps.domain.hashline.lines import LineSet
from apps.domain.hashline.model import Cut, Put, Span
from apps.domain.hashline.overlap import check_resolved
from apps.domain.hashline.parser import parse
from apps.domain.hashline.proofs import needed_lines, show_missing
from apps.domain.hashline.refusals import Caution, Refusal, Rule
from apps.domain.hashline.registers import Registers
from apps.domain.hashline.sections import split
from apps.domain.hashline.text import check_size, rows_of, tag_of

MAX_ARTIFACT_HUNKS = 32
ARTIFACT = "artifact"
"""What stands for a path in the header of an artifact."""


@dataclass(frozen=True, slots=True)
class EditedText:
    """The text of the next version, and how it differs."""

    text: str
    tag: str
    diff: Diff
    cautions: tuple[Caution, ...]


def edit_artifact_text(patch: str, *, text: str, seen: LineSet) -> EditedText:
    """Return the next text of a version whose lines were shown, or refuse the patch."""
    sections = split(patch)
    section = sections[0]
    parsed = parse(section)
    tag = tag_of(text)
    if len(sections) > 1 or section.path != ARTIFACT:
        raise Refusal(Rule.BAD_SECTION_HEADER, f"An artifact has one section, [{ARTIFACT}#{tag}].")
    if section.tag != tag:
        raise Refusal(
            Rule.STALE if section.tag else Rule.MISSING_TAG,
            f"The patch names {section.tag or 'no tag'}, and this version is {tag}. Read it.",
        )
    if parsed.file_op is not None:
        raise Refusal(
            Rule.ONLY_RANGES, "An artifact is neither removed nor moved.", row=parsed.file_op.row
        )
    if Caution.DUPLICATE_RANGE_LAST_WINS in parsed.cautions:
        raise Refusal(Rule.OVERLAP, "Two hunks want the same lines.")
    if len(parsed.hunks) > MAX_ARTIFACT_HUNKS:
        raise Refusal(Rule.PATCH_TOO_LARGE, f"An edit may have at most {MAX_ARTIFACT_HUNKS} hunks.")
    resolved: list[Resolved] = []
    for hunk in parsed.hunks:
        plain = isinstance(hunk, Put) or (isinstance(hunk, Cut) and hunk.register is None)
        if not plain or not isinstance(hunk.place, Span):
            raise Refusal(
                Rule.ONLY_RANGES,
                "In an artifact write 'PUT 3.=4:' with '+' rows, or 'CUT 3.=4'.",
                row=hunk.row,
            )
        resolved.append(Resolved(hunk, hunk.place))
    rows = rows_of(text)
    check_resolved(
        [(each.hunk, each.place) for each in resolved if isinstance(each.place, Span)],
        path=ARTIFACT,
    )
    missing = needed_lines(resolved).without(seen)
    if missing:
        shown, _ = show_missing(missing, rows)
        raise Refusal(
            Rule.UNSEEN_LINES,
            f"The edit names {len(missing)} lines that were never shown. Read them first.",
            line=missing.ranges[0][0],
            shown=shown,
        )
    check_bounds(resolved, rows, path=ARTIFACT)
    changes, _ = expand(resolved, rows, Registers({}), path=ARTIFACT)
    built = build(rows, changes)
    new = "\n".join(built.rows)
    if new == text:
        raise Refusal(Rule.NO_CHANGE, "The edit changes nothing: this version already reads so.")
    check_size(new, path=ARTIFACT)
    diff = unified(rows, built.rows, built.kept, source=ARTIFACT, target=ARTIFACT)
    return EditedText(new, tag_of(new), diff, parsed.cautions)
