"""Do two hunks want the same lines?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from apps.domain.hashline.model import Cut, Hunk, Paste, Put, Span
from apps.domain.hashline.refusals import Refusal, Rule


def settle_overlap(hunks: Sequence[Hunk], *, path: str) -> tuple[list[Hunk], int]:
    """Return the hunks that count, and how many exact duplicates were dropped, or refuse them.

    Only ranges are looked at: gaps overlap nothing, and blocks are looked at once they are found.
    """
    winners: dict[tuple[int, int], int] = {}
    dropped: set[int] = set()
    for index, hunk in enumerate(hunks):
        if not isinstance(hunk.place, Span):
            continue
        key = (hunk.place.first, hunk.place.last)
        earlier = winners.get(key)
        if earlier is not None:
            if not isinstance(hunks[earlier], Put):
                raise _overlap(hunks[earlier], hunk, path)
            dropped.add(earlier)
        winners[key] = index
    _check_neighbours([hunks[index] for index in winners.values()], path)
    return [hunk for index, hunk in enumerate(hunks) if index not in dropped], len(dropped)


def check_resolved(places: Sequence[tuple[Hunk, Span]], *, path: str) -> None:
    """Refuse hunks whose lines, now that blocks are found, meet: exact duplicates as well."""
    ordered = sorted(places, key=lambda pair: (pair[1].first, pair[1].last))
    for (hunk, span), (other, next_span) in pairwise(ordered):
        if next_span.first <= span.last:
            raise _overlap(hunk, other, path)


def _check_neighbours(hunks: list[Put | Paste | Cut], path: str) -> None:
    check_resolved(
        [(hunk, hunk.place) for hunk in hunks if isinstance(hunk.place, Span)], path=path
    )


def _overlap(hunk: Hunk, other: Hunk, path: str) -> Refusal:
    first, second = sorted((hunk, other), key=lambda each: each.row)
    line = second.place.first if isinstance(second.place, Span) else None
    return Refusal(
        Rule.OVERLAP,
        f"The hunks of rows {first.row} and {second.row} want the same lines. All numbers mean the"
        " file as it was read, and no two hunks may share a line.",
        path=path,
        row=second.row,
        line=line,
    )
