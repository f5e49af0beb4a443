"""How is something written down so that nobody without the key could have written it?

One text of each row, and an HMAC-SHA-256 under a key that the database does not hold.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Any

from django.conf import settings

from apps.audit.models import Retention

# As text, the way the database writes it: parsing a million times and moments would be most of the
# walk, and would prove nothing more.
COLUMNS = (
    "r.id, to_char(r.at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US'), r.actor, r.action,"
    " r.subject, r.outcome, r.digest, r.correlation_id, r.detail::text"
)
# One key for "may seal now"; the number only has to differ from other advisory locks of ours.
SEAL_LOCK = 0x6B7A5EA1

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def line_of(values: Sequence[Any]) -> bytes:
    """Return the one text of a line: a JSON list, so that no two rows are written alike."""
    return _encode(values).encode() + b"\n"


def begin(*values: Any) -> hmac.HMAC:
    """Begin a mark with a first line; what it covers is added line by line."""
    return hmac.new(settings.KAIZEN_AUDIT_KEY.encode(), line_of(values), hashlib.sha256)


def same(one: str, other: str) -> bool:
    """Compare two marks."""
    return hmac.compare_digest(one.encode(), other.encode())


def mark_of(dropped: Retention) -> str:
    """Return the mark over everything that a record of a dropped month says."""
    return begin(
        "retention",
        dropped.previous_mac,
        dropped.month.isoformat(),
        dropped.dropped_at.isoformat(),
        dropped.rows,
        dropped.ids,
        dropped.remainders,
    ).hexdigest()
