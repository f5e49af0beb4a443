"""Does the audit trail still say what was written? One walk over all seals and rows.

Where months were dropped by retention, the record of that stands in for the rows: it is keyed and
chained like the seals, it says which rows went, and it holds a mark over those rows of a seal that
stayed. So a row that is gone is either named in such a record or a fault.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import connection, transaction

from apps.audit.heads import check_heads, head_path
from apps.audit.marks import COLUMNS, begin, line_of, mark_of, same
from apps.audit.models import AuditSeal, Retention

FAULTS_KEPT = 1_000
_FETCH = 5_000
_MEMBERS = (
    f"SELECT s.seal_id, s.row_id, {COLUMNS} FROM audit_sealedrow s"  # noqa: S608 - constant columns
    " LEFT JOIN audit_auditrow r ON r.id = s.row_id ORDER BY s.seal_id, s.row_id"
)


@dataclass(slots=True)
class Verdict:
    """What the walk over all seals found."""

    seals: int = 0
    sealed_rows: int = 0
    dropped_rows: int = 0
    dropped_months: list[str] = field(default_factory=list)
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


def verify_audit(heads: Iterable[Path] = ()) -> Verdict:
    """Walk all seals and rows in one snapshot, and say where the record breaks, if it does.

    Seals that were written down on this machine are looked for, and those in further `heads`.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            # One snapshot for the whole walk, whatever is written meanwhile.
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return walk(heads)


def walk(heads: Iterable[Path] = ()) -> Verdict:
    """Do the same in the transaction that is open."""
    verdict = Verdict()
    dropped = _Dropped(verdict)
    previous = ""
    members = _members()
    pending = next(members, None)
    for seal in AuditSeal.objects.order_by("id").iterator(chunk_size=500):
        verdict.seals += 1
        if seal.previous_mac != previous:
            verdict.note(f"Seal {seal.pk} does not follow the seal before it.")
        previous = seal.mac
        pending = _skip_orphans(verdict, members, pending, before=seal.pk)
        pending = _check_seal(verdict, dropped, members, pending, seal)
    _skip_orphans(verdict, members, pending, before=None)
    dropped.demand_all()
    verdict.unsealed_rows = _count_unsealed()
    for path in (head_path(), *heads):
        verdict.heads_checked += check_heads(path, verdict.note)
    return verdict


Member = tuple[Any, ...] | None


class _Dropped:
    """What retention took away, as its records say it; one that is not ours excuses nothing."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self._lows: list[int] = []
        self._ranges: list[tuple[int, int, int]] = []
        self._remainders: dict[int, tuple[int, str]] = {}
        self._records: dict[int, Retention] = {}
        self._found: dict[int, int] = {}
        previous = ""
        for record in Retention.objects.order_by("id"):
            if record.previous_mac != previous or not same(record.mac, mark_of(record)):
                verdict.note(
                    f"The record that {record.month:%Y-%m} was dropped is not the one that was"
                    " written."
                )
                previous = record.mac
                continue
            previous = record.mac
            verdict.dropped_months.append(f"{record.month:%Y-%m}")
            self._records[record.pk] = record
            self._found[record.pk] = 0
            self._ranges += [(low, high, record.pk) for low, high in record.ids]
            # A later drop of the same seal's rows knows what is left of them.
            self._remainders.update((s, (rows, mac)) for s, rows, mac in record.remainders)
        self._ranges.sort()
        self._lows = [low for low, _, _ in self._ranges]

    def took(self, row: int) -> bool:
        """Whether retention took a row away; counts it."""
        place = bisect_right(self._lows, row) - 1
        if place < 0 or row > self._ranges[place][1]:
            return False
        self._found[self._ranges[place][2]] += 1
        self._verdict.dropped_rows += 1
        return True

    def remainder_of(self, seal: int) -> tuple[int, str] | None:
        """How many rows of a seal stayed, and the mark over them."""
        return self._remainders.get(seal)

    def demand_all(self) -> None:
        """Demand that exactly the rows are gone of which a record says so."""
        for ident, record in self._records.items():
            if self._found[ident] != record.rows:
                self._verdict.note(
                    f"{record.rows} rows of {record.month:%Y-%m} were dropped, and seals name"
                    f" {self._found[ident]} of them."
                )


def _check_seal(
    verdict: Verdict,
    dropped: _Dropped,
    members: Iterator[tuple[Any, ...]],
    pending: Member,
    seal: AuditSeal,
) -> Member:
    """Compare one seal with the rows that name it; return the first that names another."""
    lines: list[bytes] = []
    missing = taken = 0
    while pending is not None and pending[0] == seal.pk:
        if pending[2] is not None:
            lines.append(line_of(pending[2:]))
        elif dropped.took(pending[1]):
            taken += 1
        else:
            missing += 1
            verdict.note(f"Row {pending[1]} under seal {seal.pk} is gone.")
        pending = next(members, None)
    verdict.sealed_rows += len(lines)
    if missing:
        return pending
    if not taken:
        whole = begin(seal.previous_mac, seal.sealed_at.isoformat(), seal.rows)
        whole.update(b"".join(lines))
        holds = len(lines) == seal.rows and same(whole.hexdigest(), seal.mac)
    else:
        holds = len(lines) + taken == seal.rows and _remainder_holds(dropped, seal, lines)
    if not holds:
        verdict.note(
            f"The {seal.rows} rows under seal {seal.pk} are not the rows that were sealed."
        )
    return pending


def _remainder_holds(dropped: _Dropped, seal: AuditSeal, lines: list[bytes]) -> bool:
    """Whether what is left of a seal is what was left when the others were dropped."""
    if not lines:
        return True
    known = dropped.remainder_of(seal.pk)
    if known is None or known[0] != len(lines):
        return False
    mark = begin("remainder", seal.mac, len(lines))
    mark.update(b"".join(lines))
    return same(mark.hexdigest(), known[1])


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
