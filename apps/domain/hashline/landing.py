"""Where do inserted rows belong, and how deep? Common slips that indentation alone gives away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from apps.domain.hashline.blocks import BlockOp, is_closer
from apps.domain.hashline.changes import Change, Insertion, Replacement
from apps.domain.hashline.lines import LineSet
from apps.domain.hashline.model import After
from apps.domain.hashline.refusals import Caution
from apps.domain.hashline.scene import Scene
from apps.domain.hashline.text import indent_of, is_blank

MAX_REACH = 200
"""So many lines are looked at for the end of what rows stand in."""


def restore_indent(change: Replacement, scene: Scene) -> Replacement | None:
    """Give a body of as many rows as its range the indent that it lost as a whole, or None."""
    length = change.last - change.first + 1
    if len(change.rows) != length or change.first == 1:
        return None
    opener = scene.row(change.first - 1)
    outer, inner = indent_of(opener), indent_of(scene.row(change.first))
    if not opener.rstrip(" \t").endswith("{") or not _is_deeper(inner, outer):
        return None
    if _is_deeper(indent_of(change.rows[0]), outer):
        return None
    prefixes = [
        old[: len(old) - len(new)]
        for old, new in zip(scene.rows[change.first - 1 : change.last], change.rows, strict=True)
        if not is_blank(new) and old.endswith(new) and old.lstrip(" \t") == new.lstrip(" \t")
    ]
    if len(prefixes) < 2 or len(prefixes) * 2 <= length or len(set(prefixes)) > 1:
        return None
    prefix = prefixes[0]
    return replace(
        change, rows=tuple(row if is_blank(row) else prefix + row for row in change.rows)
    )


def land(
    change: Insertion, place: After, scene: Scene, named: LineSet
) -> tuple[Insertion, Caution] | None:
    """Return an insertion at the gap where its depth belongs, with the warning, or None."""
    depth = _depth_of(change.rows)
    if depth is None:
        return None
    if change.block is not None:
        if change.block.op is not BlockOp.INSERT_AFTER:
            return None
        line = _inside(place.line, change.block.first, depth, scene, named)
        caution = Caution.INSERT_MOVED_IN
    else:
        line = _behind_closers(place.line, depth, scene, named)
        caution = Caution.INSERT_MOVED_OUT
    if line == place.line:
        return None
    return replace(change, place=After(line)), caution


def escape_opener(
    change: Insertion, place: After, scene: Scene, others: Sequence[Change]
) -> tuple[Insertion, Caution] | None:
    """Return a whole construct behind the construct that encloses its depth, or None."""
    depth = _depth_of(change.rows)
    row = scene.row(place.line)
    if depth is None or is_blank(row) or not _is_deeper(indent_of(row), depth):
        return None
    chain = scene.chain(place.line)
    at = place.line - 1
    if not any(node.start_row == at and node.last_row > at for node in chain):
        return None
    if not scene.is_one_construct([entry.removeprefix(depth) for entry in change.rows]):
        return None
    for node in chain:
        if node.start_row < at and depth.startswith(indent_of(scene.rows[node.start_row])):
            moved = replace(change, place=After(node.last_row + 1))
            whole = scene.parses(scene.after([*others, moved]))
            return (moved, Caution.INSERT_ESCAPED_OPENER) if whole else None
    return None


def _behind_closers(line: int, depth: str, scene: Scene, named: LineSet) -> int:
    row = scene.row(line)
    if is_blank(row) or not _is_deeper(indent_of(row), depth):
        return line
    landing = line
    for following in range(line + 1, min(scene.lines, line + MAX_REACH) + 1):
        row = scene.row(following)
        if is_blank(row):
            continue
        indent = indent_of(row)
        if not is_closer(row) or following in named or not indent.startswith(depth):
            break
        landing = following
        if indent == depth:
            break
    return landing


def _inside(line: int, first: int, depth: str, scene: Scene, named: LineSet) -> int:
    landing = line
    while landing > max(first, line - MAX_REACH) and is_closer(scene.row(landing)):
        if not _is_deeper(depth, indent_of(scene.row(landing))):
            break
        if landing != line and landing in named:
            break
        landing -= 1
    return landing


def _depth_of(rows: Sequence[str]) -> str | None:
    """Return the shallowest indent, where all indents are steps of one stair."""
    solid = [row for row in rows if not is_blank(row)]
    if not solid or all(is_closer(row) for row in solid):
        return None
    indents = sorted({indent_of(row) for row in solid}, key=len)
    for shallower, deeper in pairwise(indents):
        if not deeper.startswith(shallower):
            return None
    return indents[0]


def _is_deeper(indent: str, outer: str) -> bool:
    return len(indent) > len(outer) and indent.startswith(outer)
