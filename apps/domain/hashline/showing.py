"""What arrives of the rows that an answer shows? Not what is cut off, and no credential."""

from __future__ import annotations

from collections.abc import Sequence
from json.encoder import encode_basestring

from apps.domain.redaction import redact_text


def shown_cost(row: str) -> int:
    """Return the room that a row takes in an answer, which travels as JSON, its line end included.

    What an answer has no room for is cut off, and then it was not shown.
    """
    return len(encode_basestring(row))


def without_secrets(rows: Sequence[str]) -> tuple[list[str], set[int]]:
    """Return rows without credentials, and the places of those that lost nothing."""
    text = "\n".join(rows)
    clean = redact_text(text)
    if clean == text:
        return list(rows), set(range(len(rows)))
    left = clean.split("\n")
    if len(left) != len(rows):
        # A credential of several rows became one; which of the others moved is not worth a guess.
        return left, set()
    return left, {place for place, row in enumerate(rows) if row == left[place]}
