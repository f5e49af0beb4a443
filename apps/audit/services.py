"""How does something that happened get written down?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from psycopg.types.json import Jsonb

from apps.core.correlation import current_correlation_id
from apps.core.prepared import send_last
from apps.core.wire import Statement

SYSTEM = "system:kaizen"


class Keyed(Protocol):
    """Anything that names itself as `kind:id`."""

    @property
    def key(self) -> str: ...


def record(
    *,
    actor: Keyed | str,
    action: str,
    subject: Keyed | str,
    outcome: str = "",
    digest: str = "",
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Write one row in the transaction of the change that it records.

    `detail` holds bounded facts (ids, counts, reason codes), never content or secrets.
    """
    send_last(
        Statement(
            _RECORD,
            [
                _key(actor),
                action,
                _key(subject),
                outcome,
                digest,
                current_correlation_id(),
                Jsonb(dict(detail or {})),
            ],
        )
    )


# Everything that changes something passes here, and nothing reads the row back: its number and its
# moment are the database's.
_RECORD = b"""
INSERT INTO audit_auditrow (actor, action, subject, outcome, digest, correlation_id, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""


def _key(who: Keyed | str) -> str:
    return who if isinstance(who, str) else who.key
