"""How are meters moved, by many at once, without one of them waiting for the other for ever?

All meters that one reservation moves are moved by one statement, in one order. The rows stay
locked until the transaction ends, so of two that ask for the last of a quota one sees the other.
They are locked after receipts, artifacts and blobs, and before the room.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from apps.core.wire import Statement, exchange
from apps.domain.quotas import Span, Subject, Total, Unit
from apps.quotas.spans import spans

Amounts = Mapping[Unit, int]
Subjects = Mapping[Subject, str]

_MOVE = b"""
INSERT INTO quotas_meter AS m (subject, subject_id, unit, span, used, held)
SELECT * FROM unnest(
  $1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
ON CONFLICT ON CONSTRAINT quotas_one_meter DO UPDATE
  SET used = m.used + EXCLUDED.used, held = m.held + EXCLUDED.held,
      updated_at = statement_timestamp()
RETURNING m.subject, m.unit, m.span, m.used + m.held
"""


def move(
    subjects: Subjects, *, at: datetime, used: Amounts | None = None, held: Amounts
) -> list[Total]:
    """Add to what is used and held in the spans of a moment; return what that comes to."""
    known: dict[str, Span] = {}
    rows: list[tuple[str, str, str, str, int, int]] = []
    for unit in held:
        for span in spans(unit, at):
            known[span.name] = span
            rows += [
                (subject.value, ident, unit.value, span.name, (used or {}).get(unit, 0), held[unit])
                for subject, ident in subjects.items()
            ]
    rows.sort()
    moved = exchange([Statement(_MOVE, [list(column) for column in zip(*rows, strict=True)])])
    return [
        Total(Subject(subject), Unit(unit), known[span], int(amount))
        for subject, unit, span, amount in moved[0]
    ]
