"""How many questions wait for a person, and since when? How many calls wait for another system?"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Count, Min
from prometheus_client.metrics_core import Metric

from apps.approvals.models import ApprovalRequest, Pause
from apps.core.gauges import age_of, gauge


def read() -> Iterable[Metric]:
    """Return how many questions are open, how old the oldest is, and how many calls pause."""
    pending = ApprovalRequest.objects.filter(state=ApprovalRequest.State.PENDING)
    found = pending.aggregate(waiting=Count("pk"), oldest=Min("created_at"))
    yield gauge("kaizen_approvals_waiting", "Questions that wait for a person.", found["waiting"])
    yield gauge(
        "kaizen_approvals_oldest_seconds",
        "How long the oldest open question has waited.",
        age_of(found["oldest"]),
    )
    yield gauge(
        "kaizen_calls_paused",
        "Open calls that wait for another system, which nobody executes.",
        Pause.objects.filter(state=Pause.State.WAITING).count(),
    )
