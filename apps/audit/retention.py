"""How long is the audit trail kept, and how does it stay provable when old months go?

Retention drops a month's partition whole. Its seals and memberships stay, and a record takes the
place of the rows: keyed and chained, it says which rows went, and holds a mark over those rows of
its first and last seals that stayed. What is not sealed, or does not verify, is never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from apps.audit.heads import export_retention
from apps.audit.marks import COLUMNS, SEAL_LOCK, begin, line_of, mark_of
from apps.audit.models import Retention
from apps.audit.services import SYSTEM, record
from apps.audit.verifying import verify_audit
from apps.core.errors import Conflict

_LOCK_SECONDS = 5

# Neighbouring numbers become one range, so that a month of a million rows is a short list.
_IDS = """
    SELECT lower(r), upper(r) - 1 FROM (
        SELECT unnest(range_agg(int8range(id, id, '[]'))) AS r FROM {partition}
    ) AS ranges ORDER BY 1
"""
_LEFT = f"""
    SELECT s.seal_id, e.mac, {COLUMNS}
    FROM audit_sealedrow s
    JOIN audit_auditseal e ON e.id = s.seal_id
    JOIN audit_auditrow r ON r.id = s.row_id
    WHERE (r.at < %(begin)s OR r.at >= %(end)s) AND s.seal_id IN (
        SELECT DISTINCT m.seal_id FROM audit_sealedrow m JOIN {{partition}} p ON p.id = m.row_id)
    ORDER BY s.seal_id, s.row_id
"""  # noqa: S608 - a constant list of columns


class NotRetained(Conflict):
    """A month stays, because dropping it would lose what it proves."""

    code = "audit_not_retained"


@dataclass(frozen=True, slots=True)
class Month:
    """A month of the trail that lies in a partition of its own."""

    first: date

    @property
    def partition(self) -> str:
        """The name of its table; made of digits alone, so it needs no quoting."""
        return f"audit_auditrow_{self.first:%Y_%m}"

    @property
    def end(self) -> date:
        """The first day of the next month."""
        return _months_after(self.first, 1)

    def __str__(self) -> str:
        return f"{self.first:%Y-%m}"


def retain(keep: int, *, today: date | None = None) -> list[Retention]:
    """Drop every month older than the policy keeps, from a trail that still verifies."""
    months = months_beyond(keep, today=today)
    if not months:
        return []
    _demand_ownership()
    verdict = verify_audit()
    if not verdict.sound:
        raise NotRetained(
            f"The trail does not verify ({verdict.fault_count} faults), so nothing of it is"
            " dropped: run `manage.py audit verify`."
        )
    return [drop_month(month) for month in months]


def months_beyond(keep: int, *, today: date | None = None) -> list[Month]:
    """Return the months that have a partition and are older than the policy keeps, oldest first.

    The present month and `keep` months before it are kept.
    """
    now = today or timezone.now().date()
    first_kept = _months_after(now.replace(day=1), -keep)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = 'audit_auditrow'::regclass"
            " AND c.relname ~ '^audit_auditrow_[0-9]{4}_[0-9]{2}$' ORDER BY 1"
        )
        names = [str(row[0]) for row in cursor.fetchall()]
    months = [Month(date(int(name[-7:-3]), int(name[-2:]), 1)) for name in names]
    return [month for month in months if month.first < first_kept]


def drop_month(month: Month) -> Retention:
    """Drop a month's rows, and leave the record that proves which ones and why they are gone."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            # Nobody seals meanwhile, and whoever writes waits for seconds at most.
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [SEAL_LOCK])
            cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
        _demand_sealed(month)
        dropped = _record_of(month)
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"DROP TABLE {month.partition}")
        except DatabaseError as refused:
            raise NotRetained(
                f"The database did not let {month} go: {str(refused).splitlines()[0]}"
            ) from refused
        record(
            actor=SYSTEM,
            action="audit.retained",
            subject=f"audit:{month}",
            detail={"rows": dropped.rows, "seals_in_part": len(dropped.remainders)},
        )
    export_retention(dropped)
    return dropped


def _demand_ownership() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_has_role(current_user, relowner, 'USAGE') FROM pg_class"
            " WHERE oid = 'audit_auditrow'::regclass"
        )
        owns = bool(cursor.fetchone()[0])
    if not owns:
        raise NotRetained(
            "Only the owner of the tables can drop a month: run `manage.py audit retain` with the"
            " DATABASE_URL of the role that migrates."
        )


def _demand_sealed(month: Month) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT count(*) FROM {month.partition} p"  # noqa: S608 - digits alone
            " WHERE NOT EXISTS (SELECT 1 FROM audit_sealedrow s WHERE s.row_id = p.id)"
        )
        unsealed = int(cursor.fetchone()[0])
    if unsealed:
        raise NotRetained(f"{unsealed} rows of {month} are not sealed yet, so it stays.")


def _record_of(month: Month) -> Retention:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {month.partition}")  # noqa: S608 - digits alone
        rows = int(cursor.fetchone()[0])
        cursor.execute(_IDS.format(partition=month.partition))
        ids = [[int(low), int(high)] for low, high in cursor.fetchall()]
        cursor.execute(
            _LEFT.format(partition=month.partition), {"begin": month.first, "end": month.end}
        )
        remainders = _remainders(cursor.fetchall())
    last = Retention.objects.order_by("-id").first()
    dropped = Retention(
        month=month.first,
        dropped_at=timezone.now(),
        rows=rows,
        ids=ids,
        remainders=remainders,
        previous_mac=last.mac if last else "",
    )
    dropped.mac = mark_of(dropped)
    dropped.save(force_insert=True)
    return dropped


def _remainders(left: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Mark what stays of each seal that loses some of its rows, seal by seal."""
    seals: dict[tuple[int, str], list[bytes]] = {}
    for seal, mac, *row in left:
        seals.setdefault((seal, mac), []).append(line_of(row))
    marked: list[list[Any]] = []
    for (seal, mac), lines in seals.items():
        mark = begin("remainder", mac, len(lines))
        mark.update(b"".join(lines))
        marked.append([seal, len(lines), mark.hexdigest()])
    return marked


def _months_after(first: date, count: int) -> date:
    whole = first.year * 12 + first.month - 1 + count
    return date(whole // 12, whole % 12 + 1, 1)
