"""How would a changed, cut or invented audit row be found? Seals, and the walk that checks them.

Beat seals rows in batches: an HMAC-SHA-256 under a key that the database does not hold, over the
one text of each row, chained to the seal before. Which rows a seal covers stands in a membership
table, so a row that commits late is simply covered by the next seal. Every seal is also written
outside the database (a log line and a file), so that cutting off the tail is found.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from apps.audit.models import AuditSeal

log = structlog.get_logger(__name__)

SEAL_BATCH = 5_000
FAULTS_KEPT = 1_000
LATE = timedelta(hours=1)
"""How long a transaction may take to commit its row and still be looked for at every sealing."""
WHOLE_TRAIL_EVERY = 500
"""After so many seals, and at the first, the whole trail is looked through."""

# One key for "may seal now"; the number only has to differ from other advisory locks of ours.
_SEAL_LOCK = 0x6B7A5EA1
_FETCH = 5_000
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
# As text, the way the database writes it: parsing a million times and moments would be most of the
# walk, and would prove nothing more.
_COLUMNS = (
    "r.id, to_char(r.at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US'), r.actor, r.action,"
    " r.subject, r.outcome, r.digest, r.correlation_id, r.detail::text"
)
_UNSEALED = (
    f"SELECT {_COLUMNS}, r.at FROM audit_auditrow r"  # noqa: S608 - a constant list of columns
    " WHERE r.at >= %s AND NOT EXISTS (SELECT 1 FROM audit_sealedrow s WHERE s.row_id = r.id)"
    " ORDER BY r.at, r.id LIMIT %s"
)
_MEMBERS = (
    f"SELECT s.seal_id, s.row_id, {_COLUMNS} FROM audit_sealedrow s"  # noqa: S608 - as above
    " LEFT JOIN audit_auditrow r ON r.id = s.row_id ORDER BY s.seal_id, s.row_id"
)


@dataclass(slots=True)
class Verdict:
    """What the walk over all seals found."""

    seals: int = 0
    sealed_rows: int = 0
    unsealed_rows: int = 0
    heads_checked: int = 0
    fault_count: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether nothing was changed, removed or cut."""
        return not self.fault_count

    def note(self, fault: str) -> None:
        """Write a fault down, and beyond the bound only count it."""
        self.fault_count += 1
        if len(self.faults) < FAULTS_KEPT:
            self.faults.append(fault)


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
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_SEAL_LOCK])
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
        mac = _start(previous, sealed_at.isoformat(), len(rows))
        for row in rows:
            mac.update(_text(row[:-1]))
        seal = AuditSeal.objects.create(
            sealed_at=sealed_at, rows=len(rows), previous_mac=previous, mac=mac.hexdigest()
        )
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO audit_sealedrow (row_id, seal_id) SELECT unnest(%s::bigint[]), %s",
                [[row[0] for row in rows], seal.pk],
            )
    _export_head(seal)
    return seal, reached


def verify_audit() -> Verdict:
    """Walk all seals and rows once, and say where the record breaks, if it does."""
    verdict = Verdict()
    previous = ""
    with transaction.atomic():
        with connection.cursor() as cursor:
            # One snapshot for the whole walk, whatever is written meanwhile.
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        members = _members()
        pending = next(members, None)
        for seal in AuditSeal.objects.order_by("id").iterator(chunk_size=500):
            verdict.seals += 1
            if seal.previous_mac != previous:
                verdict.note(f"Seal {seal.pk} does not follow the seal before it.")
            previous = seal.mac
            pending = _skip_orphans(verdict, members, pending, before=seal.pk)
            pending = _check_seal(verdict, members, pending, seal)
        _skip_orphans(verdict, members, pending, before=None)
        verdict.unsealed_rows = _count_unsealed()
        _check_heads(verdict)
    return verdict


Member = tuple[Any, ...] | None


def _check_seal(
    verdict: Verdict, members: Iterator[tuple[Any, ...]], pending: Member, seal: AuditSeal
) -> Member:
    """Compare one seal with the rows that name it; return the first that names another."""
    mac = _start(seal.previous_mac, seal.sealed_at.isoformat(), seal.rows)
    found = missing = 0
    while pending is not None and pending[0] == seal.pk:
        if pending[2] is None:
            missing += 1
            verdict.note(f"Row {pending[1]} under seal {seal.pk} is gone.")
        else:
            mac.update(_text(pending[2:]))
            found += 1
        pending = next(members, None)
    verdict.sealed_rows += found
    if not missing and (found != seal.rows or not hmac.compare_digest(mac.hexdigest(), seal.mac)):
        verdict.note(
            f"The {seal.rows} rows under seal {seal.pk} are not the rows that were sealed."
        )
    return pending


def _skip_orphans(
    verdict: Verdict,
    members: Iterator[tuple[Any, ...]],
    pending: Member,
    *,
    before: int | None,
) -> Member:
    """Name the seals that rows speak of and that are gone; return what comes after."""
    told: int | None = None
    while pending is not None and (before is None or pending[0] < before):
        if pending[0] != told:
            told = pending[0]
            verdict.note(f"Rows name seal {told}, which is gone.")
        pending = next(members, None)
    return pending


def head_path() -> Path:
    """Where the newest seals are written down outside the database."""
    return Path(settings.KAIZEN_STATE_DIR) / "audit-head.jsonl"


def _members() -> Iterator[tuple[Any, ...]]:
    with connection.chunked_cursor() as cursor:
        cursor.execute(_MEMBERS)
        while batch := cursor.fetchmany(_FETCH):
            yield from batch


def _count_unsealed() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM audit_auditrow r"
            " LEFT JOIN audit_sealedrow s ON s.row_id = r.id WHERE s.row_id IS NULL"
        )
        return int(cursor.fetchone()[0])


def _start(previous: str, sealed_at: str, rows: int) -> hmac.HMAC:
    key = settings.KAIZEN_AUDIT_KEY.encode()
    return hmac.new(key, _text([previous, sealed_at, rows]), hashlib.sha256)


def _text(values: Sequence[Any]) -> bytes:
    """Return the one text of a line: a JSON list, so that no two rows are written alike."""
    return _encode(values).encode() + b"\n"


def _export_head(seal: AuditSeal) -> None:
    log.info("audit_sealed", seal=seal.pk, rows=seal.rows, mac=seal.mac)
    line = json.dumps({"seal": seal.pk, "mac": seal.mac, "at": seal.sealed_at.isoformat()})
    path = head_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as heads:
        heads.write(line + "\n")


def _check_heads(verdict: Verdict) -> None:
    """Look for every seal that was written down outside; a cut tail is missing from the table."""
    path = head_path()
    if not path.exists():
        return
    known = dict(AuditSeal.objects.values_list("id", "mac"))
    with path.open(encoding="utf-8") as heads:
        for number, line in enumerate(heads, start=1):
            try:
                noted = json.loads(line)
                seal, mac, at = noted["seal"], noted["mac"], noted["at"]
            except (ValueError, KeyError, TypeError):
                verdict.note(f"Line {number} of {path.name} cannot be read.")
                continue
            verdict.heads_checked += 1
            if known.get(seal) != mac:
                verdict.note(f"Seal {seal}, written down on {at}, is not in the database.")
