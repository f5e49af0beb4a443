"""Step 1, decide: gather the facts as they are now, and ask the pure policy.

Nothing here trusts what the model, a token or an earlier answer said. Permissions, roster, ceiling,
grants and the fence are read again at every call, under the run's lock.
"""

from __future__ import annotations

from apps.accounts.capabilities import capabilities_of
from apps.approvals.models import ApprovalRequest, Receipt
from apps.boundary.crossing import Crossing
from apps.boundary.standing import Standing, read_standing
from apps.domain.canonical import digest
from apps.domain.lessons import Lessons
from apps.domain.policy import Facts, ReceiptState, Refuse, Verdict, decide, needs_grant
from apps.domain.tooling import (
    CallState,
    Outcome,
    Reason,
    RepeatPolicy,
    Specification,
)
from apps.runs.bodies import arguments_of
from apps.runs.models import Call, Run
from apps.runs.selectors import ceiling_of


def judge(crossing: Crossing) -> Verdict:
    """Return the policy's verdict on a call whose run and row are locked."""
    if crossing.tool is None:
        return Refuse(
            reason=Reason.OUTSIDE_CATALOG,
            message=f"There is no tool called {crossing.call.tool!r} in this run.",
            rule="tool_is_in_catalog",
        )
    standing = crossing.standing or read_standing(run_id=crossing.run.pk, tool=crossing.call.tool)
    return decide(crossing.tool.spec, _facts(crossing, crossing.tool.spec, standing))


def _facts(crossing: Crossing, spec: Specification, standing: Standing) -> Facts:
    run, call = standing.run, crossing.call
    lessons = Lessons.of(run.lessons)
    return Facts(
        member_active=run.member.is_active,
        member_may_take_part=run.member.is_active and standing.may_take_part,
        member_permissions=capabilities_of(run.member),
        agent_enabled=run.agent.enabled,
        agent_ceiling=ceiling_of(run),
        # Only a tool that the agent holds now resolves at all, so holding it is what resolved.
        granted_tools=frozenset({spec.name}) if needs_grant(spec) else frozenset(),
        in_catalog=standing.catalog_digest is not None,
        descriptor_digest_catalog=standing.catalog_digest,
        descriptor_digest_now=spec.digest,
        tool_enabled=crossing.tool is not None and crossing.tool.enabled,
        room_closed=run.room.closed_at is not None,
        roster_is_actor_only=not standing.others_in_room,
        run_state_ok=run.state != Run.State.FINISHED,
        # The lock was taken through the fence, or the call has its own executor's claim.
        fence_ok=True,
        stop_requested=run.stop_requested_at is not None,
        approval=_approval(call),
        repeat_of=_earlier_success(call, spec),
        same_failure=lessons.same_failure(call.tool, call.arguments_digest, step=call.step),
        cut_off=lessons.cuts_off(call.tool),
    )


def _approval(call: Call) -> ReceiptState | None:
    if not call.needs_receipt:
        return None
    request = ApprovalRequest.objects.filter(call=call).first()
    if request is None:
        return None
    if request.state == ApprovalRequest.State.APPROVED:
        receipt = Receipt.objects.filter(call=call).first()
        if receipt is None or receipt.arguments_digest != call.arguments_digest:
            return ReceiptState.FOREIGN
        if digest(arguments_of(call)) != call.arguments_digest:
            # What would be executed is not what the digest in the row says, nor what was shown.
            return ReceiptState.FOREIGN
        return ReceiptState.APPROVED if receipt.spent_at is None else ReceiptState.SPENT
    return {
        ApprovalRequest.State.PENDING: ReceiptState.PENDING,
        ApprovalRequest.State.DENIED: ReceiptState.DENIED,
        ApprovalRequest.State.EXPIRED: ReceiptState.EXPIRED,
        ApprovalRequest.State.WITHDRAWN: ReceiptState.EXPIRED,
    }[ApprovalRequest.State(request.state)]


def _earlier_success(call: Call, spec: Specification) -> str | None:
    if spec.repeat is not RepeatPolicy.REDUNDANT:
        return None
    earlier = (
        Call.objects.filter(
            run_id=call.run_id,
            tool=call.tool,
            arguments_digest=call.arguments_digest,
            state=CallState.SETTLED.value,
            outcome=Outcome.OK.value,
            step__lt=call.step,
        )
        .values_list("pk", flat=True)
        .first()
    )
    return None if earlier is None else str(earlier)
