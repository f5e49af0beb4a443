"""How does something that happened get written down?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from apps.audit.models import AuditRow
from apps.core.correlation import current_correlation_id
from apps.core.prepared import insert_last

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
    insert_last(
        AuditRow(
            actor=_key(actor),
            action=action,
            subject=_key(subject),
            outcome=outcome,
            digest=digest,
            correlation_id=current_correlation_id(),
            detail=dict(detail or {}),
        )
    )


def _key(who: Keyed | str) -> str:
    return who if isinstance(who, str) else who.key
