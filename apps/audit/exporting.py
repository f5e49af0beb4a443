"""How does a filtered part of the audit trail leave, row by row, without filling the memory?"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection
from django.db.models import Q, QuerySet

from apps.audit.models import AuditRow

BATCH = 2_000
FIELDS = ("id", "at", "actor", "action", "subject", "outcome", "digest", "correlation_id", "detail")
# A spreadsheet takes a cell that starts with one of these for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Encoder = Callable[[Iterable[AuditRow]], str]


def encode_csv(rows: Iterable[AuditRow]) -> str:
    """Return rows as lines of CSV."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    for row in rows:
        writer.writerow([_cell(value) for value in _values(row)])
    return buffer.getvalue()


def encode_json_lines(rows: Iterable[AuditRow]) -> str:
    """Return rows as one JSON object a line."""
    return "".join(
        json.dumps(dict(zip(FIELDS, _values(row), strict=True)), ensure_ascii=False) + "\n"
        for row in rows
    )


def csv_head() -> str:
    """Return the line that names the columns."""
    return ",".join(FIELDS) + "\r\n"


def stream(rows: QuerySet[AuditRow], encode: Encoder, head: str = "") -> Iterator[str]:
    """Yield the encoded rows, newest first, in bounded pieces."""
    if head:
        yield head
    for batch in _batches(rows):
        yield encode(batch)


async def stream_later(
    rows: QuerySet[AuditRow], encode: Encoder, head: str = ""
) -> AsyncIterator[str]:
    """Yield the same from an event loop; no connection is held between two pieces."""
    if head:
        yield head
    after: AuditRow | None = None
    while batch := await sync_to_async(_fetch_and_let_go)(rows, after):
        yield encode(batch)
        after = batch[-1]


def _batches(rows: QuerySet[AuditRow]) -> Iterator[list[AuditRow]]:
    after: AuditRow | None = None
    while batch := _fetch(rows, after):
        yield batch
        after = batch[-1]


def _fetch(rows: QuerySet[AuditRow], after: AuditRow | None) -> list[AuditRow]:
    """Return the next rows behind one; each piece starts where the last ended, by index."""
    if after is not None:
        rows = rows.filter(at__lte=after.at).filter(
            Q(at__lt=after.at) | Q(at=after.at, id__lt=after.pk)
        )
    return list(rows.order_by("-at", "-id")[:BATCH])


def _fetch_and_let_go(rows: QuerySet[AuditRow], after: AuditRow | None) -> list[AuditRow]:
    try:
        return _fetch(rows, after)
    finally:
        connection.close()


def _values(row: AuditRow) -> list[Any]:
    return [
        row.pk,
        row.at.isoformat(),
        row.actor,
        row.action,
        row.subject,
        row.outcome,
        row.digest,
        row.correlation_id,
        row.detail,
    ]


def _cell(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
