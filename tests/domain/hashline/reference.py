"""The reference cases, how one is run, and where we differ on purpose.

The cases are our own; what each expects was recorded from the engines that define the format.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from apps.domain.hashline import Edited, LineSet, Refused, SectionResult, read_text, tag_of
from apps.domain.hashline.text import count_lines, rows_of
from tests.domain.hashline.desk import Desk

_VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text())

TAGS: list[dict[str, str]] = _VECTORS["tags"]
CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in _VECTORS["cases"]}

# Where the last call of a case ends otherwise than in the engine that the cases were taken from.
# Each is explained in the decision record on Hashline.
REFUSED_HERE = {
    "fileop-018": "destination_exists",
    "fileop-026": "stale",
    "fileop-027": "unknown_tag",
    "fileop-028": "stale",
    "overlap-009": "overlap",
    "overlap-010": "overlap",
    "block-058": "overlap",
    "chain-009": "unknown_tag",
    "chain-016": "stale",
    "seen-016": "unseen_lines",
    "seen-019": "unseen_lines",
    "seen-021": "unseen_lines",
    "lenient-075": "bad_section_header",
}
WARNED_HERE = {"stale-029": ["recovered_external"]}
FIRST_STATEMENT_HERE = {
    "block-005": {"anchor": 11, "start": 11, "end": 12, "op": "cut"},
    "block-006": {"anchor": 5, "start": 5, "end": 7, "op": "cut"},
    "block-008": {"anchor": 11, "start": 11, "end": 12, "op": "insert_after"},
}
"""A block that begins with the first statement of a body is that statement, not the body."""

KNOWN_DIFFERENCES = {*REFUSED_HERE, *WARNED_HERE, *FIRST_STATEMENT_HERE}


def wrong_tag(vector: dict[str, str]) -> bool:
    """Tell whether a text of the reference gets another tag here."""
    return tag_of(read_text(vector["text"]).text) != vector["tag"]


def differs(case: dict[str, Any], desk: Desk | None = None) -> str:
    """Run the steps of a case and say what came otherwise than expected, or nothing."""
    desk = desk or Desk()
    last = len(case["steps"]) - 1
    for number, step in enumerate(case["steps"]):
        match step["op"]:
            case "file" | "write":
                desk.files[step["path"]] = step["text"]
            case "delete":
                del desk.files[step["path"]]
            case "read":
                tag = desk.read(step["path"], seen=_seen(desk, step))
                if tag != step["expect"]["tag"]:
                    return f"step {number}: tag {tag}"
            case "edit":
                before = dict(desk.files)
                result = desk.call(step["patch"])
                wanted = _wanted(case["id"] if number == last else "", step["expect"], before)
                got = _told(result, desk.files)
                if case["id"] in FIRST_STATEMENT_HERE and number == last:
                    got = {"blocks": got["sections"][0]["blocks"]}
                if got != wanted:
                    return f"step {number}: wanted {wanted}, got {got}"
    return ""


def _wanted(name: str, expect: dict[str, Any], before: dict[str, str]) -> dict[str, Any]:
    if name in REFUSED_HERE:
        return {"ok": False, "error": REFUSED_HERE[name], "files": before}
    if name in FIRST_STATEMENT_HERE:
        return {"blocks": [FIRST_STATEMENT_HERE[name]]}
    wanted = copy.deepcopy(expect)
    if name in WARNED_HERE:
        wanted["sections"][0]["warnings"] = WARNED_HERE[name]
    return wanted


def _seen(desk: Desk, step: dict[str, Any]) -> LineSet | None:
    if step["seen"] == "all":
        return None
    if step["seen"] is None:
        # The engine behind the cases checks nothing then; here everything, and more, was seen.
        rows = rows_of(read_text(desk.files[step["path"]]).text)
        return LineSet.of([(1, count_lines(rows) + 100)])
    return LineSet.of_lines(step["seen"])


def _told(result: Edited | Refused, files: dict[str, str]) -> dict[str, Any]:
    if isinstance(result, Refused):
        return {"ok": False, "error": result.rule.value, "files": files}
    return {"ok": True, "sections": [_section(each) for each in result.sections], "files": files}


def _section(section: SectionResult) -> dict[str, Any]:
    told: dict[str, Any] = {
        "path": section.path,
        "op": section.outcome.value,
        "tag": section.tag,
        "moved_to": section.moved_to,
        "first_changed_line": section.first_changed_line,
        "warnings": [caution.value for caution in section.cautions],
        "blocks": [
            {"anchor": block.anchor, "start": block.first, "end": block.last, "op": block.op.value}
            for block in section.blocks
        ]
        or None,
    }
    return {name: value for name, value in told.items() if value is not None}
