"""How far is sealing behind?"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Exists, OuterRef
from prometheus_client.metrics_core import Metric

from apps.audit.models import AuditRow, AuditSeal, SealedRow
from apps.audit.sealing import LATE
from apps.core.gauges import age_of, gauge

MOST_UNSEALED = 50_000
"""Rows without a seal that are counted; more are as bad."""


def read() -> Iterable[Metric]:
    """Return how many rows have no seal yet, and how old the newest seal is."""
    last = AuditSeal.objects.order_by("-id").first()
    rows = AuditRow.objects.filter(~Exists(SealedRow.objects.filter(row_id=OuterRef("pk"))))
    if last is not None:
        # Older rows were looked through before; the walk that verifies finds any left behind.
        rows = rows.filter(at__gte=last.sealed_at - LATE)
    yield gauge(
        "kaizen_audit_unsealed_rows",
        "Audit rows that no seal covers yet.",
        len(rows.values_list("pk", flat=True)[:MOST_UNSEALED]),
    )
    yield gauge(
        "kaizen_audit_seal_age_seconds",
        "How long ago the newest seal was made.",
        age_of(None if last is None else last.sealed_at),
    )
