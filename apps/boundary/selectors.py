"""Which calls and questions are ready for a worker to look at?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Q
from django.db.models.functions import Now

from apps.approvals.models import ApprovalRequest
from apps.domain.tooling import CallState
from apps.runs.models import Call


def may_be_executed() -> Q:
    """A waiting call that needs nobody's yes, or has one that was not used."""
    admitted = Q(needs_receipt=False) | Q(receipt__isnull=False, receipt__spent_at=None)
    return Q(state=CallState.WAITING.value) & admitted


def ready_calls(limit: int) -> Iterable[Any]:
    """Ids of calls that may be executed, or whose executor fell silent."""
    silent = Q(state=CallState.DISPATCHED.value, executor_expires_at__lt=Now())
    return (
        Call.objects.filter(may_be_executed() | silent)
        .order_by("created_at")
        .values_list("pk", flat=True)[:limit]
    )


def overdue_requests(limit: int) -> Iterable[Any]:
    """Ids of questions that ran out of time."""
    return ApprovalRequest.objects.filter(
        state=ApprovalRequest.State.PENDING, expires_at__lte=Now()
    ).values_list("pk", flat=True)[:limit]
