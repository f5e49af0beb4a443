"""How many questions wait for a person, and since when?"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Count, Min
from prometheus_client.metrics_core import Metric

from apps.approvals.models import ApprovalRequest
from apps.core.gauges import age_of, gauge


def read() -> Iterable[Metric]:
    """Return how many questions are open, and how old the oldest is."""
    pending = ApprovalRequest.objects.filter(state=ApprovalRequest.State.PENDING)
    found = pending.aggregate(waiting=Count("pk"), oldest=Min("created_at"))
    yield gauge("kaizen_approvals_waiting", "Questions that wait for a person.", found["waiting"])
    yield gauge(
        "kaizen_approvals_oldest_seconds",
        "How long the oldest open question has waited.",
        age_of(found["oldest"]),
    )
