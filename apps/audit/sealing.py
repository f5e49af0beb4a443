"""How would a changed, cut or invented audit row be found? Seals, and the walk that checks them.

Beat seals rows in batches: an HMAC-SHA-256 under a key that the database does not hold, over the
canonical text of each row, chained to the seal before. Which rows a seal covers stands in a
membership table, so a row that commits late is simply covered by the next seal. The newest seal is
also written outside the database (a log line and a file), so that cutting off the tail is found.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from apps.audit.models import AuditSeal, SealedRow
from apps.domain.canonical import canonical_json

log = structlog.get_logger(__name__)

SEAL_BATCH = 5_000
# One key for "may seal now"; the number only has to differ from other advisory locks of ours.
_SEAL_LOCK = 0x6B7A5EA1
_COLUMNS = (
    "r.id, r.at, r.actor, r.action, r.subject, r.outcome, r.digest, r.correlation_id, r.detail"
)


@dataclass(slots=True)
class Verdict:
    """What the walk over all seals found."""

    seals: int = 0
    sealed_rows: int = 0
    unsealed_rows: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether nothing was changed, removed or cut."""
        return not self.faults


def seal_rows() -> AuditSeal | None:
    """Seal every committed row that no seal covers yet, up to one batch."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_SEAL_LOCK])
            if not cursor.fetchone()[0]:
                return None
            cursor.execute(
                f"SELECT {_COLUMNS} FROM audit_auditrow r"  # noqa: S608 - a constant list of columns
                " LEFT JOIN audit_sealedrow s ON s.row_id = r.id"
                " WHERE s.row_id IS NULL ORDER BY r.id LIMIT %s",
                [SEAL_BATCH],
            )
            rows = cursor.fetchall()
        if not rows:
            return None
        last = AuditSeal.objects.order_by("-id").first()
        previous = last.mac if last else ""
        sealed_at = timezone.now()
        mac = _start(previous, sealed_at.isoformat(), len(rows))
        for row in rows:
            mac.update(_row_text(row))
        seal = AuditSeal.objects.create(
            sealed_at=sealed_at, rows=len(rows), previous_mac=previous, mac=mac.hexdigest()
        )
        SealedRow.objects.bulk_create([SealedRow(row_id=row[0], seal=seal) for row in rows])
    _export_head(seal)
    return seal


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
                verdict.faults.append(f"Seal {seal.pk} does not follow the seal before it.")
            mac = _start(seal.previous_mac, seal.sealed_at.isoformat(), seal.rows)
            found = missing = 0
            while pending is not None and pending[0] == seal.pk:
                row = pending[2:]
                if row[0] is None:
                    missing += 1
                    verdict.faults.append(f"Row {pending[1]} under seal {seal.pk} is gone.")
                else:
                    mac.update(_row_text(row))
                    found += 1
                pending = next(members, None)
            verdict.sealed_rows += found
            if not missing and (
                found != seal.rows or not hmac.compare_digest(mac.hexdigest(), seal.mac)
            ):
                verdict.faults.append(
                    f"The {seal.rows} rows under seal {seal.pk} are not the rows that were sealed."
                )
            previous = seal.mac
        if pending is not None:
            verdict.faults.append(f"Rows name seal {pending[0]}, which is gone.")
        verdict.unsealed_rows = _count_unsealed()
        _check_head(verdict)
    return verdict


def head_path() -> Path:
    """Where the newest seals are written down outside the database."""
    return Path(settings.KAIZEN_STATE_DIR) / "audit-head.jsonl"


def _members() -> Iterator[tuple[Any, ...]]:
    with connection.chunked_cursor() as cursor:
        cursor.execute(
            f"SELECT s.seal_id, s.row_id, {_COLUMNS} FROM audit_sealedrow s"  # noqa: S608
            " LEFT JOIN audit_auditrow r ON r.id = s.row_id ORDER BY s.seal_id, s.row_id"
        )
        while batch := cursor.fetchmany(5_000):
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
    head = canonical_json({"previous": previous, "rows": rows, "sealed_at": sealed_at})
    return hmac.new(key, head + b"\n", hashlib.sha256)


def _row_text(row: tuple[Any, ...]) -> bytes:
    ident, at, actor, action, subject, outcome, digest, correlation_id, detail = row
    facts = json.loads(detail) if isinstance(detail, str) else detail
    fields = [
        ident, at.isoformat(), actor, action, subject, outcome, digest, correlation_id, facts,
    ]  # fmt: skip
    return canonical_json(fields) + b"\n"


def _export_head(seal: AuditSeal) -> None:
    log.info("audit_sealed", seal=seal.pk, rows=seal.rows, mac=seal.mac)
    line = json.dumps({"seal": seal.pk, "mac": seal.mac, "at": seal.sealed_at.isoformat()})
    path = head_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as head:
        head.write(line + "\n")


def _check_head(verdict: Verdict) -> None:
    path = head_path()
    if not path.exists():
        return
    known = dict(AuditSeal.objects.values_list("id", "mac"))
    for line in path.read_text(encoding="utf-8").splitlines():
        noted = json.loads(line)
        if known.get(noted["seal"]) != noted["mac"]:
            verdict.faults.append(
                f"Seal {noted['seal']}, written down on {noted['at']}, is not in the database."
            )
