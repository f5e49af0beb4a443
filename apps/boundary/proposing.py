"""How does a proposal become a call? Size, JSON and schema first; then a row, whatever it says.

A proposal that is no valid call gets its row too, settled at once with the reason, so that the
journal, the audit trail and the model all see the same truth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from apps.boundary.crossing import Crossing
from apps.boundary.errors import ProposalChanged
from apps.boundary.steps.project import unexecuted
from apps.boundary.steps.record import record
from apps.domain.canonical import BadJson, digest, digest_bytes, strict_loads
from apps.domain.pinning import refusal_of
from apps.domain.tooling import DEFAULT_ARGUMENT_CAP, Outcome, Reason
from apps.grants.policy import DeploymentPolicy, deployment_policy
from apps.rooms.services import publish_event
from apps.runs.bodies import arguments_of, pack, proposed_arguments
from apps.runs.models import Call, Run
from apps.runs.services import actor_of, agent_card, keep_call
from apps.tools.catalog import canonical_name, resolve_tool
from apps.tools.contract import Tool

MAX_NAME = 64
MAX_PROPOSAL_ID = 200

_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a model or another runtime wants to call: nothing in it is trusted."""

    proposal_id: str
    name: str
    arguments_text: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A call that nobody has written down yet, and what is wrong with its arguments."""

    call: Call
    tool: Tool | None
    fault: str | None


def propose(*, run: Run, step: int, place: int, proposal: Proposal) -> Call:
    """Store a proposed call, or return the one that the same proposal id stored before.

    The run is locked. An invalid proposal comes back settled as refused.
    """
    draft = draft_call(
        run=run, step=step, place=place, proposal=proposal, policy=deployment_policy()
    )
    known = Call.objects.filter(run=run, proposal_id=proposal.proposal_id).first()
    if known is not None:
        return demand_same(known, draft)
    keep_call(draft.call)
    introduce(run, draft)
    return draft.call


def draft_call(
    *, run: Run, step: int, place: int, proposal: Proposal, policy: DeploymentPolicy
) -> Draft:
    """Read a proposal into a call that is not written down: size, JSON, schema and digest."""
    name = tool_name(proposal.name)
    tool = resolve_tool(name, run.agent, policy)
    arguments, fault = _read(proposal.arguments_text, tool)
    inline, blob = pack(arguments)
    call = Call(
        run=run,
        # Its row may come later, with its outcome; this is when it was proposed.
        created_at=timezone.now(),
        step=step,
        place=place,
        proposal_id=proposal.proposal_id,
        tool=name,
        title=tool.spec.title if tool is not None else name,
        effect=tool.spec.effect.value if tool is not None else "",
        capability=tool.spec.capability.value if tool is not None else "",
        arguments=inline,
        arguments_blob=blob,
        arguments_digest=(
            digest(arguments)
            if fault is None
            else digest_bytes(proposal.arguments_text.encode("utf-8", "replace"))
        ),
        descriptor_digest=tool.digest if tool is not None else "",
        pinned=sorted(tool.pins.names) if tool is not None and fault is None else [],
    )
    return Draft(call, tool, fault)


def demand_same(known: Call, draft: Draft) -> Call:
    """Return the call that a proposal id stands for already, unless another one is drafted now."""
    if not _is_same(known, draft):
        raise ProposalChanged(
            "This proposal id already stands for another call of this run.",
            field="proposal_id",
        )
    return known


def introduce(run: Run, draft: Draft) -> None:
    """Tell the room of a new call, and settle it as refused where its arguments are not valid."""
    call = draft.call
    publish_event(
        room_id=run.room_id,
        kind="call.proposed",
        actor=actor_of(run.agent),
        data={
            "call": str(call.pk),
            "run": str(run.pk),
            "tool": call.tool,
            "title": call.title,
            "effect": call.effect,
            "state": call.state,
            "agent": agent_card(run.agent),
        },
    )
    if draft.fault is None:
        return
    message = f"The arguments are not valid. {draft.fault}"
    record(
        Crossing(run=run, call=call, tool=draft.tool),
        outcome=Outcome.REFUSED,
        reason=Reason.INVALID_ARGUMENTS.value,
        rule="arguments_are_valid",
        projection=unexecuted(
            outcome=Outcome.REFUSED.value, reason=Reason.INVALID_ARGUMENTS, message=message
        ),
        explanation=message,
    )


def tool_name(given: str) -> str:
    """Return a tool's own name as it may be shown and kept; what no tool is called names none."""
    shortened = given if len(given) <= MAX_NAME else f"{given[: MAX_NAME - 1]}?"
    return canonical_name(_NO_NAME.sub("?", shortened) or "unnamed")


def _read(text: str, tool: Tool | None) -> tuple[dict[str, Any], str | None]:
    """Return the arguments, or an empty object and what is wrong with them."""
    cap = tool.spec.argument_cap if tool is not None else DEFAULT_ARGUMENT_CAP
    try:
        value = strict_loads(text or "{}", max_bytes=cap, nul=False)
    except BadJson as bad:
        return {}, bad.message
    if not isinstance(value, dict):
        return {}, "Arguments are one JSON object."
    if tool is None:
        return value, None
    if taken := tool.pins.named_in(value):
        return {}, refusal_of(taken)
    # From here on they are arguments like any other: judged, digested, shown and kept.
    whole = tool.pins.merged(value)
    errors = tool.spec.argument_errors(whole)
    if errors:
        return {}, " ".join(str(error) for error in errors)
    return whole, None


def _is_same(known: Call, draft: Draft) -> bool:
    drafted = draft.call
    if known.tool != drafted.tool or known.arguments_digest == drafted.arguments_digest:
        return known.tool == drafted.tool
    if draft.tool is None or draft.tool.digest == known.descriptor_digest:
        return False
    # What is pinned has changed since it was stored: what was proposed must still all be in it.
    proposed = proposed_arguments(drafted, arguments_of(drafted))
    return proposed.items() <= arguments_of(known).items()
