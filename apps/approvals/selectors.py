"""What do readers ask of approvals?"""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from apps.accounts.models import User
from apps.approvals.errors import RequestNotFound
from apps.approvals.models import ApprovalRequest


def requests_for(decider: User) -> QuerySet[ApprovalRequest]:
    """Every request that this member decides or decided, newest first."""
    if not decider.is_active:
        return ApprovalRequest.objects.none()
    return ApprovalRequest.objects.filter(decider=decider).select_related(
        "call", "call__run", "call__run__agent", "call__run__room", "call__run__member",
        "decided_by",
    )  # fmt: skip


def pending_approvals_for(decider: User) -> QuerySet[ApprovalRequest]:
    """The requests that wait for this member."""
    return requests_for(decider).filter(state=ApprovalRequest.State.PENDING)


def request_for(*, approval_id: Any, decider: User) -> ApprovalRequest:
    """Return one request that this member decides, or refuse as if it did not exist."""
    request = requests_for(decider).filter(pk=approval_id).first()
    if request is None:
        raise RequestNotFound("There is no such approval that you decide.")
    return request
