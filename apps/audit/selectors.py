"""What do readers ask of the audit trail?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.contrib.auth import get_user_model

from apps.audit.models import AuditRow


@dataclass(frozen=True, slots=True)
class Told:
    """An audit row, with its actor's name."""

    row: AuditRow
    actor: str


def history_of(subject: str, *, limit: int) -> Sequence[Told]:
    """Return the newest rows about one object, newest first."""
    return tell(AuditRow.objects.filter(subject=subject).order_by("-id")[:limit])


def rows_of_correlation(correlation_id: str, *, limit: int) -> Sequence[Told]:
    """Return the newest rows that one request or run caused, newest first."""
    if not correlation_id:
        return []
    return tell(AuditRow.objects.filter(correlation_id=correlation_id).order_by("-id")[:limit])


def tell(rows: Iterable[AuditRow]) -> list[Told]:
    """Put names to the actors of some rows, in one query."""
    found = list(rows)
    names = names_of(row.actor for row in found)
    return [Told(row, names.get(row.actor, row.actor)) for row in found]


def names_of(keys: Iterable[str]) -> dict[str, str]:
    """Return the names of the people among `kind:id` keys."""
    wanted = {
        int(key.removeprefix("user:"))
        for key in keys
        if key.startswith("user:") and key.removeprefix("user:").isdigit()
    }
    people = get_user_model()._default_manager.filter(pk__in=wanted) if wanted else ()
    return {f"user:{one.pk}": getattr(one, "name", one.get_username()) for one in people}
