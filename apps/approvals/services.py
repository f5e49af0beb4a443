"""How does a question become a receipt, and how is a receipt spent exactly once?

The receipt ledger knows nothing of how a call is executed: it stores the question before any
waiting starts, turns the answers that are needed into at most one receipt, and spends that by one
conditional update inside the transaction that consumes the call. The caller holds the locks of run
and call.
"""

from __future__ import annotations

from datetime import timedelta

from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.models import User
from apps.approvals.errors import (
    AlreadyAnswered,
    AlreadyDecided,
    NotTheSecond,
    NotWhatWasShown,
    ReceiptSpent,
)
from apps.approvals.models import Answer, ApprovalRequest, Receipt, Waiver
from apps.approvals.selectors import may_second
from apps.audit.services import SYSTEM, Keyed, record
from apps.core.metrics import APPROVALS, count
from apps.domain.policy.modes import ApprovalMode, Second, Waived
from apps.runs.models import Call

ASK_FOR = timedelta(hours=24)
RECEIPT_FOR = timedelta(hours=1)


def ask(
    *,
    call: Call,
    decider: User,
    why: str,
    mode: ApprovalMode = ApprovalMode.ASK_EVERY_TIME,
    second: Second = Second.NOBODY,
    may_remember: bool = False,
    expires_after_s: int | None = None,
    binding: str = "",
    replaces: ApprovalRequest | None = None,
) -> ApprovalRequest:
    """Store a question about exactly this call."""
    patience = ASK_FOR if expires_after_s is None else timedelta(seconds=expires_after_s)
    request = ApprovalRequest.objects.create(
        call=call,
        decider=decider,
        tool=call.tool,
        arguments_digest=call.arguments_digest,
        descriptor_digest=call.descriptor_digest,
        binding=binding,
        why=why[:300],
        mode=mode.value,
        second=second.value,
        may_remember=may_remember,
        replaces=replaces,
        expires_at=timezone.now() + min(patience, ASK_FOR),
    )
    record(
        actor=decider,
        action="approval.requested",
        subject=request,
        digest=call.arguments_digest,
        detail={"call": str(call.pk), "tool": call.tool, "second": second.value},
    )
    count(APPROVALS, decision="asked")
    return request


def approve(*, request: ApprovalRequest, person: User, arguments_digest: str) -> Receipt | None:
    """Take one person's yes to exactly these arguments; the last one that is needed is a receipt.

    None says that another person still has to agree.
    """
    if arguments_digest != request.arguments_digest:
        raise NotWhatWasShown(
            "These are not the arguments that the request holds. Load it again before deciding.",
            field="arguments_digest",
        )
    _answer(request, person, yes=True)
    given = {answer.part: answer.by for answer in request.answers.select_related("by")}
    second = given.get(Answer.Part.SECOND)
    if Answer.Part.FIRST not in given or (request.second and second is None):
        record(
            actor=person,
            action="approval.seconded" if second is not None else "approval.agreed",
            subject=request,
            digest=request.arguments_digest,
            detail={"call": str(request.call_id), "tool": request.tool},
        )
        return None
    _decide(request, ApprovalRequest.State.APPROVED, by=person, actor=person)
    return Receipt.objects.create(
        request=request,
        call_id=request.call_id,
        run_id=request.call.run_id,
        actor=request.decider,
        seconded_by=second,
        tool=request.tool,
        arguments_digest=request.arguments_digest,
        descriptor_digest=request.descriptor_digest,
        binding=request.binding,
        expires_at=timezone.now() + RECEIPT_FOR,
    )


def deny(*, request: ApprovalRequest, person: User, comment: str) -> None:
    """Take a no: of two people who are asked, either one's is enough."""
    _answer(request, person, yes=False, comment=comment)
    _decide(request, ApprovalRequest.State.DENIED, by=person, actor=person, comment=comment)


def replace(*, request: ApprovalRequest, person: User, comment: str) -> None:
    """Close a question because the person who was asked proposed other arguments."""
    _decide(request, ApprovalRequest.State.REPLACED, by=person, actor=person, comment=comment)


def expire(*, request: ApprovalRequest) -> None:
    """Close a question that nobody answered in time."""
    _decide(request, ApprovalRequest.State.EXPIRED, by=None, actor=SYSTEM)


def withdraw(*, request: ApprovalRequest, actor: Keyed | str) -> None:
    """Close a question whose run has ended."""
    _decide(request, ApprovalRequest.State.WITHDRAWN, by=None, actor=actor)


def spend_receipt(*, call: Call, actor: User) -> Receipt:
    """Spend the receipt of exactly this call, run, tool, arguments and actor, or refuse.

    The database decides: of two that try, one update finds the row unspent.
    """
    spent = Receipt.objects.filter(
        call=call,
        run=call.run_id,
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


def waive(*, call: Call, actor: User, kind: Waived) -> Waiver:
    """Write down that a call which would have asked passes, and why: this is no receipt."""
    waiver = Waiver.objects.create(
        call=call, kind=kind.value, arguments_digest=call.arguments_digest
    )
    record(
        actor=actor,
        action="approval.waived",
        subject=call,
        digest=call.arguments_digest,
        detail={"tool": call.tool, "why": kind.value},
    )
    return waiver


def _answer(request: ApprovalRequest, person: User, *, yes: bool, comment: str = "") -> None:
    if request.state != ApprovalRequest.State.PENDING:
        raise AlreadyDecided("This request has already been decided.")
    part = Answer.Part.FIRST if person.pk == request.decider_id else Answer.Part.SECOND
    if part == Answer.Part.SECOND and not may_second(person, request):
        raise NotTheSecond("You may not give the second yes to this request.")
    earlier = Answer.objects.filter(request=request)
    if earlier.filter(by=person).exists():
        raise AlreadyAnswered("You have already answered. It waits for another person.")
    if earlier.filter(part=part).exists():
        raise AlreadyAnswered("Somebody else has already given the second yes.")
    Answer.objects.create(
        request=request,
        part=part,
        by=person,
        yes=yes,
        arguments_digest=request.arguments_digest,
        comment=comment[:500],
    )


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
