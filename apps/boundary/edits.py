"""How does a person put other arguments in place of those that a model proposed?

An edit is a new call: with a row and a digest of its own, read, validated and judged like any that
a model proposes. The old one settles as denied and tells the model whose arguments took its place.
Whoever edits has said yes to what they wrote; where the rules ask two people, the other one is
asked about the new arguments.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.db.models import Max

from apps.accounts.models import User
from apps.approvals import services as ledger
from apps.approvals.errors import NotTheDecider, NotWhatWasShown
from apps.approvals.models import ApprovalRequest
from apps.approvals.selectors import request_for
from apps.boundary.crossing import Crossing
from apps.boundary.errors import EditRefused
from apps.boundary.pipeline import cross
from apps.boundary.proposing import Draft, Proposal, draft_call, introduce
from apps.boundary.services import agree, announce_decision, demand_open, lock_for_decision
from apps.boundary.steps.project import unexecuted
from apps.boundary.steps.record import record as settle
from apps.core.errors import Conflict
from apps.domain.tooling import Outcome, Reason
from apps.domain.words import shown
from apps.grants.policy import deployment_policy
from apps.rooms.services import room_last
from apps.runs.bodies import arguments_of, projection_of, proposed_arguments
from apps.runs.models import Call, Run
from apps.runs.services import keep_call
from apps.tools.catalog import resolve_tool
from apps.tools.contract import Tool

MAX_EDITS = 20
"""How often a person may change one call's arguments before they should say no."""
MAX_TOLD = 4_000
"""Characters of new arguments that the model is told; the rest it learns from the result."""


@dataclass(frozen=True, slots=True)
class Edited:
    """The new call, and the question about it where it asks."""

    call: Call
    request: ApprovalRequest | None


@room_last()
def edit_approval(
    *, approval_id: Any, member: User, arguments_digest: str, arguments: dict[str, Any]
) -> Edited:
    """Put other arguments in place of those that a request holds, and say yes to them."""
    request, run, call = lock_for_decision(request_for(approval_id=approval_id, decider=member))
    demand_open(request, run)
    if member.pk != request.decider_id:
        raise NotTheDecider("Only the member for whom the run works may change the arguments.")
    if arguments_digest != request.arguments_digest:
        raise NotWhatWasShown(
            "These are not the arguments that the request holds. Load it again before changing it.",
            field="arguments_digest",
        )
    draft = _draft(run, call, request, arguments)
    keep_call(draft.call)
    introduce(run, draft)
    # The new call gets somewhere before the old one ends, so that the run goes on waiting.
    made = _put_in_place(run, draft, request)
    ledger.replace(request=request, person=member, comment="")
    announce_decision(request, run, by=member)
    _settle_old(run, call, draft, member)
    if made is not None:
        made = agree(made, run, by=member, arguments_digest=made.arguments_digest)
    return Edited(draft.call, made)


def _draft(run: Run, call: Call, request: ApprovalRequest, arguments: dict[str, Any]) -> Draft:
    """Read the new arguments as if the model had proposed them, or say what is wrong with them."""
    if _edits_of(request) >= MAX_EDITS:
        raise Conflict(f"A call's arguments can be changed {MAX_EDITS} times. Say yes or no to it.")
    policy = deployment_policy()
    tool = resolve_tool(call.tool, run.agent, policy)
    if tool is None:
        raise EditRefused("The tool is no longer there.", extra={"rule": "tool_is_in_catalog"})
    proposed = _without_pinned(tool, arguments)
    last = Call.objects.filter(run=run, step=call.step).aggregate(last=Max("place"))["last"]
    draft = draft_call(
        run=run,
        step=call.step,
        place=last + 1,
        proposal=Proposal(
            proposal_id=f"edit:{request.pk}",
            name=call.tool,
            arguments_text=json.dumps(proposed, ensure_ascii=False),
        ),
        policy=policy,
    )
    if draft.fault is not None:
        errors = [
            {
                "field": f"arguments{error.path}",
                "rule": error.rule,
                "detail": error.text,
            }
            for error in tool.spec.argument_errors(tool.pins.merged(proposed))
        ]
        raise EditRefused(
            draft.fault,
            field="arguments",
            extra={"rule": "arguments_are_valid", "errors": errors},
        )
    if draft.call.arguments_digest == call.arguments_digest:
        raise EditRefused(
            "These are the arguments that were proposed. Approve them as they are.",
            field="arguments",
            extra={"rule": "arguments_differ"},
        )
    return draft


def _without_pinned(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the deployment sets itself; who edits sees it, and cannot change it."""
    for name, value in tool.pins.values.items():
        if name in arguments and arguments[name] != value:
            said = f"The deployment sets {shown(name)} itself, so it stays as it is."
            wrong = {"field": f"arguments/{name}", "rule": "argument_is_pinned", "detail": said}
            raise EditRefused(
                said, field="arguments", extra={"rule": "argument_is_pinned", "errors": [wrong]}
            )
    return tool.pins.without(arguments)


def _edits_of(request: ApprovalRequest) -> int:
    """How many edits led to this request."""
    edits, at = 0, request
    while at.replaces is not None and edits < MAX_EDITS:
        edits, at = edits + 1, at.replaces
    return edits


def _settle_old(run: Run, call: Call, draft: Draft, member: User) -> None:
    message = (
        f"{member.name} proposed other arguments for this call, so it was not made as you proposed"
        " it. The call with the person's arguments was put in its place."
    )
    settle(
        Crossing(run=run, call=call, tool=draft.tool),
        outcome=Outcome.DENIED,
        reason=Reason.SUPERSEDED.value,
        rule="somebody_said_yes",
        projection={
            **unexecuted(outcome=Outcome.DENIED.value, reason=Reason.SUPERSEDED, message=message),
            "replaced_by": {"call": str(draft.call.pk), "arguments": _told(draft)},
        },
        explanation=f"{member.name} changed the arguments; see the call that follows.",
    )


def _told(draft: Draft) -> Any:
    """Return the new arguments as the model may read them: without what is none of its own."""
    arguments = proposed_arguments(draft.call, arguments_of(draft.call))
    if len(json.dumps(arguments, ensure_ascii=False)) <= MAX_TOLD:
        return arguments
    return {"names": sorted(arguments), "too_long_to_repeat": True}


def _put_in_place(run: Run, draft: Draft, old: ApprovalRequest) -> ApprovalRequest | None:
    """Let the new call cross; where it asks, its question is linked to the old one."""
    crossed = cross(run=run, call=draft.call)
    call = crossed.call
    if call.outcome in (Outcome.REFUSED.value, Outcome.STOPPED.value):
        # Everything of this edit is undone with it: the old question stays as it was.
        said = (projection_of(call) or {}).get("message", "")
        raise EditRefused(said, extra={"rule": call.rule, "reason": call.reason})
    if not call.needs_receipt:
        return None
    request = ApprovalRequest.objects.select_for_update(no_key=True, of=("self",)).get(call=call)
    request.replaces = old
    request.save(update_fields=["replaces", "updated_at"])
    return request
