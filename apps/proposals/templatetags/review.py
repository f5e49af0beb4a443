"""How is a difference drawn? As rows of a table, every word of it escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from apps.proposals.differences import DiffRow, Piece, Side

register = template.Library()


@register.simple_tag
def diff_rows(rows: Sequence[DiffRow], one_sided: bool = False) -> SafeString:
    """Draw rows side by side, or only the side that exists."""
    # Thousands of rows: joined here, because a template's loop takes seconds for them.
    parts: list[str] = []
    for row in rows:
        if row.kind == "gap":
            words = "1 unchanged line" if row.skipped == 1 else f"{row.skipped} unchanged lines"
            span = 2 if one_sided else 4
            parts.append(f'<tr class="gap"><td colspan="{span}">{words}</td></tr>')
        elif one_sided:
            side = row.right or row.left
            parts.append(f'<tr class="{row.kind}">{_side(side, "whole")}</tr>')
        else:
            left = "before" if row.kind in ("changed", "removed") else ""
            right = "after" if row.kind in ("changed", "added") else ""
            parts.append(f"<tr>{_side(row.left, left)}{_side(row.right, right)}</tr>")
    return mark_safe("".join(parts))  # noqa: S308 - built from escaped pieces above


def _side(side: Side | None, kind: str) -> str:
    if side is None:
        return '<td class="no none"></td><td class="none"></td>'
    return f'<td class="no {kind}">{side.number}</td><td class="{kind}">{_line(side.pieces)}</td>'


def _line(pieces: Iterable[Piece]) -> str:
    return "".join(_piece(piece) for piece in pieces)


def _piece(piece: Piece) -> str:
    text = escape(piece.text)
    if piece.odd:
        return f'<mark class="odd">{text}</mark>'
    return f"<mark>{text}</mark>" if piece.mark else str(text)
