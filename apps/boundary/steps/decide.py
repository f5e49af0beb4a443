"""Step 1, decide: gather the facts as they are now, and ask the pure policy.

Nothing here trusts what the model, a token or an earlier answer said. Permissions, roster, ceiling,
grants and the fence are read again at every call, under the run's lock.
"""

from __future__ import annotations

from dataclasses import replace

from apps.accounts.capabilities import capabilities_of
from apps.approvals.models import ApprovalRequest, Receipt
from apps.approvals.wishes import asking_of
from apps.boundary.crossing import Crossing
from apps.boundary.standing import Standing, alone_until_commit, read_standing
from apps.domain.canonical import digest
from apps.domain.lessons import Lessons
from apps.domain.policy import (
    Admit,
    Facts,
    ReceiptState,
    Refuse,
    Second,
    Verdict,
    decide,
    needs_grant,
)
from apps.domain.tooling import (
    CallState,
    CollaborationClass,
    Outcome,
    Reason,
    RepeatPolicy,
    Specification,
)
from apps.grants.selectors import narrowing
from apps.runs.bodies import arguments_of
from apps.runs.models import Call, Run
from apps.runs.selectors import agents_ceiling
from apps.tools.contract import Tool
from apps.tools.credentials import is_connected

_CLOSED = {
    ApprovalRequest.State.PENDING: ReceiptState.PENDING,
    ApprovalRequest.State.DENIED: ReceiptState.DENIED,
    ApprovalRequest.State.REPLACED: ReceiptState.DENIED,
    ApprovalRequest.State.EXPIRED: ReceiptState.EXPIRED,
    ApprovalRequest.State.WITHDRAWN: ReceiptState.EXPIRED,
}


def judge(crossing: Crossing) -> Verdict:
    """Return the policy's verdict on a call whose run and row are locked."""
    if crossing.tool is None:
        return Refuse(
            reason=Reason.OUTSIDE_CATALOG,
            message=f"There is no tool called {crossing.call.tool!r} in this run.",
            rule="tool_is_in_catalog",
        )
    standing = crossing.standing or read_standing(run_id=crossing.run.pk, tool=crossing.call.tool)
    spec, facts = crossing.tool.spec, facts_of(crossing.call, crossing.tool, standing)
    verdict = decide(spec, facts)
    if isinstance(verdict, Admit) and spec.collaboration is CollaborationClass.ACTOR_PRIVATE_READ:
        # Nobody may come in between this look at the roster and the moment that it counts.
        alone = alone_until_commit(standing.run)
        verdict = decide(spec, replace(facts, roster_is_actor_only=alone))
    return verdict


def facts_of(call: Call, tool: Tool, standing: Standing, *, held: bool = True) -> Facts:
    """Return everything that the policy is asked with, about a call of this tool as things stand.

    There is one such place, so whoever explains a decision speaks of the same facts.
    """
    run, spec = standing.run, tool.spec
    approval, seconded = _approval(call)
    lessons = Lessons.of(run.lessons)
    hindrance = tool.hindrance
    return Facts(
        member_active=run.member.is_active,
        member_may_take_part=run.member.is_active and standing.may_take_part,
        member_permissions=capabilities_of(run.member),
        agent_enabled=run.agent.enabled,
        agent_ceiling=agents_ceiling(run),
        # Only a tool that the agent holds now resolves at all, so holding it is what resolved.
        granted_tools=frozenset({spec.name}) if held and needs_grant(spec) else frozenset(),
        in_catalog=standing.catalog_digest is not None,
        descriptor_digest_catalog=standing.catalog_digest,
        descriptor_digest_now=tool.digest,
        tool_enabled=not hindrance,
        tool_hindrance=hindrance,
        room_closed=run.room.closed_at is not None,
        roster_is_actor_only=not standing.others_in_room,
        run_state_ok=run.state != Run.State.FINISHED,
        # The lock was taken through the fence, or the call has its own executor's claim.
        fence_ok=True,
        stop_requested=run.stop_requested_at is not None,
        grant=standing.grant,
        policy_tree=standing.policy.tree,
        run_ceiling=narrowing(run.ceiling),
        run_selection=narrowing(run.selection),
        member_choice=standing.member_choice,
        asking=asking_of(run, call, spec, standing.asking),
        approval=approval,
        seconded=seconded,
        repeat_of=_earlier_success(call, spec),
        same_failure=lessons.same_failure(call.tool, call.arguments_digest, step=call.step),
        cut_off=lessons.cuts_off(call.tool),
        connected=is_connected(spec=spec, member=run.member),
    )


def _approval(call: Call) -> tuple[ReceiptState | None, Second]:
    """Return what became of the question about this call, and which second yes it holds."""
    if not call.needs_receipt:
        return None, Second.NOBODY
    request = ApprovalRequest.objects.select_related("receipt").filter(call=call).first()
    if request is None:
        return None, Second.NOBODY
    if request.state == ApprovalRequest.State.APPROVED:
        receipt: Receipt | None = getattr(request, "receipt", None)
        if receipt is None or receipt.arguments_digest != call.arguments_digest:
            return ReceiptState.FOREIGN, Second.NOBODY
        if digest(arguments_of(call)) != call.arguments_digest:
            # What would be executed is not what the digest in the row says, nor what was shown.
            return ReceiptState.FOREIGN, Second.NOBODY
        if receipt.spent_at is not None:
            return ReceiptState.SPENT, Second.NOBODY
        seconded = receipt.seconded_by_id is not None
        return ReceiptState.APPROVED, Second(request.second) if seconded else Second.NOBODY
    return _CLOSED[ApprovalRequest.State(request.state)], Second.NOBODY


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
