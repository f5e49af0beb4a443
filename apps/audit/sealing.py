"""How would a changed, cut or invented audit row be found? By seals, made here batch by batch.

Beat seals rows in batches: an HMAC-SHA-256 under a key that the database does not hold, over the
one text of each row, chained to the seal before. Which rows a seal covers stands in a membership
table, so a row that commits late is simply covered by the next seal. Every seal is also written
outside the database (`heads`), so that cutting off the tail is found. `verifying` checks them.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection, transaction
from django.utils import timezone

from apps.audit.heads import export_seal
from apps.audit.marks import COLUMNS, SEAL_LOCK, begin, line_of
from apps.audit.models import AuditSeal

SEAL_BATCH = 5_000
LATE = timedelta(hours=1)
"""How long a transaction may take to commit its row and still be looked for at every sealing."""
WHOLE_TRAIL_EVERY = 500
"""After so many seals, and at the first, the whole trail is looked through."""

_UNSEALED = (
    f"SELECT {COLUMNS}, r.at FROM audit_auditrow r"  # noqa: S608 - a constant list of columns
    " WHERE r.at >= %s AND NOT EXISTS (SELECT 1 FROM audit_sealedrow s WHERE s.row_id = r.id)"
    " ORDER BY r.at, r.id LIMIT %s"
)


def seal_what_waits() -> int:
    """Seal batch after batch until one is not full; return how many rows were sealed.

    Usually only what was written since shortly before the last seal is looked through; now and
    then it is the whole trail, for a row whose transaction took longer than anybody expected.
    """
    last = AuditSeal.objects.order_by("-id").first()
    everything = last is None or last.pk % WHOLE_TRAIL_EVERY == 0
    since: datetime | None = None if last is None or everything else last.sealed_at - LATE
    sealed = 0
    while (batch := seal_batch(since=since)) is not None:
        seal, since = batch
        sealed += seal.rows
        # Under steady writing there is always one more row; the next beat takes it.
        if seal.rows < SEAL_BATCH:
            break
    return sealed


def seal_batch(*, since: datetime | None = None) -> tuple[AuditSeal, datetime] | None:
    """Seal one batch of committed rows that no seal covers yet; return it and where it ended.

    None says that nothing waits from `since` on, or that another worker is sealing.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [SEAL_LOCK])
            if not cursor.fetchone()[0]:
                return None
            cursor.execute(_UNSEALED, [since or "-infinity", SEAL_BATCH])
            rows = cursor.fetchall()
        if not rows:
            return None
        reached: datetime = rows[-1][-1]
        # The walk that checks a seal meets its rows by number.
        rows.sort()
        last = AuditSeal.objects.order_by("-id").first()
        previous = last.mac if last else ""
        sealed_at = timezone.now()
        mac = begin(previous, sealed_at.isoformat(), len(rows))
        for row in rows:
            mac.update(line_of(row[:-1]))
        seal = AuditSeal.objects.create(
            sealed_at=sealed_at, rows=len(rows), previous_mac=previous, mac=mac.hexdigest()
        )
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO audit_sealedrow (row_id, seal_id) SELECT unnest(%s::bigint[]), %s",
                [[row[0] for row in rows], seal.pk],
            )
    export_seal(seal)
    return seal, reached
