"""What may people do to calls and runs? Decide an approval, stop a run."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import User
from apps.approvals import services as ledger
from apps.approvals import wishes
from apps.approvals.errors import AlreadyDecided, MayNotBeRemembered
from apps.approvals.models import ApprovalRequest
from apps.approvals.selectors import request_for
from apps.audit.services import SYSTEM, record
from apps.boundary.children import stop_children
from apps.boundary.crossing import Crossing
from apps.boundary.pausing import close_pause
from apps.boundary.steps.approve import EXECUTE_TASK
from apps.boundary.steps.project import unexecuted
from apps.boundary.steps.record import record as settle
from apps.core.errors import Forbidden
from apps.core.queue import ring
from apps.domain.tooling import CallState, Outcome, Reason
from apps.rooms.services import publish_event, room_last
from apps.runs.claims import lock_call, lock_run
from apps.runs.errors import RunOver
from apps.runs.models import Call, Run
from apps.runs.selectors import visible_run
from apps.runs.services import TURN_TASK, actor_of, finish_run, member_card
from apps.runs.waits import is_paused


@room_last()
def decide_approval(
    *,
    approval_id: Any,
    member: User,
    approve: bool,
    arguments_digest: str = "",
    comment: str = "",
    remember: bool | None = None,
) -> ApprovalRequest:
    """Say yes to exactly the arguments that were shown, or no.

    Only the member for whom the run works can, and whoever may give a second yes where one is
    asked for. The last yes makes a receipt and rings a worker; a no settles the call and the run
    goes on. Where the question may be remembered, the member's yes lets exactly this call pass
    from now on in this room: always under `ask on first use`, otherwise where they say so.
    """
    shown = request_for(approval_id=approval_id, decider=member)
    request, run, call = lock_for_decision(shown)
    demand_open(request, run)
    if approve:
        return agree(request, run, by=member, arguments_digest=arguments_digest, remember=remember)
    ledger.deny(request=request, person=member, comment=comment)
    announce_decision(request, run, by=member)
    said = f" They said: {comment}" if comment else ""
    _settle_unexecuted(
        run,
        call,
        outcome=Outcome.DENIED,
        reason=Reason.APPROVAL_DENIED,
        rule="somebody_said_yes",
        message=f"{member.name} said no, so the tool was not called.{said}",
    )
    return request


def lock_for_decision(shown: ApprovalRequest) -> tuple[ApprovalRequest, Run, Call]:
    """Lock a run, its call and the question about it, in this order."""
    run = lock_run(shown.call.run_id)
    call = lock_call(shown.call_id)
    requests = ApprovalRequest.objects.select_for_update(no_key=True, of=("self",))
    return requests.select_related("decider").get(pk=shown.pk), run, call


def agree(
    request: ApprovalRequest,
    run: Run,
    *,
    by: User,
    arguments_digest: str,
    remember: bool | None = None,
) -> ApprovalRequest:
    """Take a yes to a locked question; the last one that is needed lets a worker go on."""
    remembered = _is_remembered(request, remember)
    receipt = ledger.approve(request=request, person=by, arguments_digest=arguments_digest)
    if receipt is None:
        announce_answer(request, run, by=by)
        return request
    if remembered:
        wishes.remember(call=request.call, member=request.decider)
    ring(EXECUTE_TASK, call_id=str(request.call_id))
    announce_decision(request, run, by=by)
    return request


def demand_open(request: ApprovalRequest, run: Run) -> None:
    """Refuse to decide what its run's end, or its time, has closed."""
    if run.state == Run.State.FINISHED:
        raise RunOver("The run has ended, so there is nothing left to decide.")
    if request.state != ApprovalRequest.State.PENDING:
        raise AlreadyDecided("This request has already been decided.")
    if request.expires_at <= timezone.now():
        raise AlreadyDecided("This request ran out of time.")


def _is_remembered(request: ApprovalRequest, asked: bool | None) -> bool:
    """Tell whether a yes covers the same call later: what asks on first use is asked once."""
    if asked and not request.may_remember:
        raise MayNotBeRemembered(
            "This call asks every time, so its yes is for this once.", field="remember"
        )
    if asked is None:
        return request.may_remember and request.mode == ApprovalRequest.Mode.FIRST_TIME
    return asked


@room_last()
def expire_request(*, approval_id: Any) -> None:
    """Close a question that ran out of time, and let its run go on without the call."""
    found = ApprovalRequest.objects.select_related("call").filter(pk=approval_id).first()
    if found is None:
        return
    run = lock_run(found.call.run_id)
    call = lock_call(found.call_id)
    request = ApprovalRequest.objects.select_for_update(no_key=True).get(pk=found.pk)
    if request.state != ApprovalRequest.State.PENDING or request.expires_at > timezone.now():
        return
    ledger.expire(request=request)
    announce_decision(request, run, by=None)
    _settle_unexecuted(
        run,
        call,
        outcome=Outcome.DENIED,
        reason=Reason.APPROVAL_EXPIRED,
        rule="somebody_said_yes",
        message="Nobody answered in time, so the tool was not called.",
    )


@room_last()
def stop_run(*, run_id: Any, member: User) -> Run:
    """Stop a run and all that work for it: the member's own, or as the owner of its room.

    What waits is settled as stopped at once. A worker that holds the run, or a tool that is
    running, is told within a second.
    """
    visible_run(run_id=run_id, user=member)
    run = lock_run(run_id)
    if run.member_id != member.pk and run.room.created_by_id != member.pk:
        raise Forbidden("Only the member for whom it works, or the room's owner, can stop a run.")
    if run.state == Run.State.FINISHED:
        raise RunOver("The run has already ended.")
    if run.stop_requested_at is None:
        run.stop_requested_at = timezone.now()
        run.stop_requested_by = member.key
        run.save(update_fields=["stop_requested_at", "stop_requested_by", "updated_at"])
        record(actor=member, action="run.stop_requested", subject=run)
    _end_or_tell(run, by=member)
    return run


def _end_or_tell(run: Run, *, by: User) -> None:
    """End a locked run that was told to stop, or leave that to whoever is at it."""
    held_by_worker = run.state == Run.State.RUNNING and run.runtime == Run.Runtime.KAIZEN
    close_waiting_calls(run=run, actor=by, message=f"{by.name} stopped the run.")
    for child in stop_children(run=run, by=by.key):
        _end_or_tell(child, by=by)
    running = Call.objects.running().filter(run=run).exists()
    if not held_by_worker and not running:
        finish_run(run=run, outcome=Run.Outcome.STOPPED, explanation=f"Stopped by {by.name}.")
    elif run.state == Run.State.QUEUED:
        ring(TURN_TASK, run_id=str(run.pk))


def close_waiting_calls(*, run: Run, actor: User | str, message: str) -> None:
    """Settle every call of a run that nobody executes. The run's row is locked."""
    idle = Q(state__in=(CallState.PROPOSED.value, CallState.WAITING.value))
    paused = Q(state=CallState.DISPATCHED.value, executor_expires_at=None)
    waiting = (
        Call.objects.select_for_update(no_key=True)
        .filter(idle | paused, run=run)
        .order_by("step", "place")
    )
    for call in waiting:
        if is_paused(call):
            close_pause(Crossing(run=run, call=call, tool=None), message=message)
            continue
        request = ApprovalRequest.objects.filter(
            call=call, state=ApprovalRequest.State.PENDING
        ).first()
        if request is not None:
            ledger.withdraw(request=request, actor=actor)
            announce_decision(request, run, by=None)
        _settle_unexecuted(
            run,
            call,
            outcome=Outcome.STOPPED,
            reason=Reason.STOPPED,
            rule="run_is_live",
            message=message,
        )


def _settle_unexecuted(
    run: Run, call: Call, *, outcome: Outcome, reason: Reason, rule: str, message: str
) -> None:
    settle(
        Crossing(run=run, call=call, tool=None),
        outcome=outcome,
        reason=reason.value,
        rule=rule,
        projection=unexecuted(outcome=outcome.value, reason=reason, message=message),
        explanation=message,
    )


def announce_answer(request: ApprovalRequest, run: Run, *, by: User) -> None:
    """Tell the room that one of two people has said yes."""
    publish_event(
        room_id=run.room_id,
        kind="approval.answered",
        actor=by.key,
        data={
            "approval": str(request.pk),
            "call": str(request.call_id),
            "run": str(run.pk),
            "by": member_card(by),
            "second": request.second,
        },
    )


def announce_decision(request: ApprovalRequest, run: Run, *, by: User | None) -> None:
    """Tell the room how a question was decided, and by whom."""
    publish_event(
        room_id=run.room_id,
        kind="approval.decided",
        actor=by.key if by is not None else SYSTEM,
        data={
            "approval": str(request.pk),
            "call": str(request.call_id),
            "run": str(run.pk),
            "decision": request.state,
            "by": member_card(by) if by is not None else None,
            "agent": actor_of(run.agent),
        },
    )
