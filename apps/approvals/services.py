"""How does a question become a receipt, and how is a receipt spent exactly once?

The receipt ledger knows nothing of how a call is executed: it stores the question before any
waiting starts, turns one decision into at most one receipt, and spends that by one conditional
update inside the transaction that consumes the call. The caller holds the locks of run and call.
"""

from __future__ import annotations

from datetime import timedelta

from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.models import User
from apps.approvals.errors import AlreadyDecided, NotWhatWasShown, ReceiptSpent
from apps.approvals.models import ApprovalRequest, Receipt
from apps.audit.services import SYSTEM, Keyed, record
from apps.core.metrics import APPROVALS, count
from apps.runs.models import Call

ASK_FOR = timedelta(hours=24)
RECEIPT_FOR = timedelta(hours=1)


def ask(*, call: Call, decider: User, why: str) -> ApprovalRequest:
    """Store a question about exactly this call."""
    request = ApprovalRequest.objects.create(
        call=call,
        decider=decider,
        tool=call.tool,
        arguments_digest=call.arguments_digest,
        descriptor_digest=call.descriptor_digest,
        why=why[:300],
        expires_at=timezone.now() + ASK_FOR,
    )
    record(
        actor=decider,
        action="approval.requested",
        subject=request,
        digest=call.arguments_digest,
        detail={"call": str(call.pk), "tool": call.tool},
    )
    count(APPROVALS, decision="asked")
    return request


def approve(*, request: ApprovalRequest, decider: User, arguments_digest: str) -> Receipt:
    """Turn a yes to exactly these arguments into a receipt."""
    if arguments_digest != request.arguments_digest:
        raise NotWhatWasShown(
            "These are not the arguments that the request holds. Load it again before deciding.",
            field="arguments_digest",
        )
    _decide(request, ApprovalRequest.State.APPROVED, by=decider, actor=decider)
    return Receipt.objects.create(
        request=request,
        call_id=request.call_id,
        actor=request.decider,
        tool=request.tool,
        arguments_digest=request.arguments_digest,
        descriptor_digest=request.descriptor_digest,
        expires_at=timezone.now() + RECEIPT_FOR,
    )


def deny(*, request: ApprovalRequest, decider: User, comment: str) -> None:
    """Store a no."""
    _decide(request, ApprovalRequest.State.DENIED, by=decider, actor=decider, comment=comment)


def expire(*, request: ApprovalRequest) -> None:
    """Close a question that nobody answered in time."""
    _decide(request, ApprovalRequest.State.EXPIRED, by=None, actor=SYSTEM)


def withdraw(*, request: ApprovalRequest, actor: Keyed | str) -> None:
    """Close a question whose run has ended."""
    _decide(request, ApprovalRequest.State.WITHDRAWN, by=None, actor=actor)


def spend_receipt(*, call: Call, actor: User) -> Receipt:
    """Spend the receipt of exactly this call, tool, arguments and actor, or refuse.

    The database decides: of two that try, one update finds the row unspent.
    """
    spent = Receipt.objects.filter(
        call=call,
        actor=actor,
        tool=call.tool,
        arguments_digest=call.arguments_digest,
        descriptor_digest=call.descriptor_digest,
        spent_at=None,
        expires_at__gt=Now(),
    ).update(spent_at=Now(), updated_at=Now())
    if spent != 1:
        raise ReceiptSpent("This approval was already used, has expired, or was for another call.")
    receipt = Receipt.objects.get(call=call)
    record(
        actor=actor,
        action="receipt.spent",
        subject=receipt,
        digest=call.arguments_digest,
        detail={"call": str(call.pk), "tool": call.tool},
    )
    return receipt


def _decide(
    request: ApprovalRequest,
    state: ApprovalRequest.State,
    *,
    by: User | None,
    actor: Keyed | str,
    comment: str = "",
) -> None:
    decided = ApprovalRequest.objects.filter(
        pk=request.pk, state=ApprovalRequest.State.PENDING
    ).update(state=state, decided_by=by, decided_at=Now(), comment=comment[:500], updated_at=Now())
    if decided != 1:
        raise AlreadyDecided("This request has already been decided.")
    request.refresh_from_db()
    record(
        actor=actor,
        action=f"approval.{state.value}",
        subject=request,
        digest=request.arguments_digest,
        detail={"call": str(request.call_id), "tool": request.tool},
    )
    count(APPROVALS, decision=state.value)
