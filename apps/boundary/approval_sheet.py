"""What does a member see before a yes? Where to, as whom, what effect, can it be undone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.accounts.models import User
from apps.approvals.models import ApprovalRequest
from apps.approvals.selectors import request_for
from apps.domain.tooling import Effect, EffectDomain, EffectKind, Specification
from apps.grants.policy import deployment_policy
from apps.runs.bodies import arguments_of
from apps.tools.catalog import resolve_tool

_UNKNOWN = "Unknown: the tool is no longer there, so a yes would be refused."
_EFFECTS = {
    Effect.READ: "It reads.",
    Effect.WRITE: "It writes.",
    Effect.SENSITIVE: "It does something sensitive.",
}
_KINDS = {
    EffectKind.READS: "reads",
    EffectKind.WRITES: "writes",
    EffectKind.DELETES: "deletes",
    EffectKind.NETWORK: "uses the network",
    EffectKind.SPAWNS_RUN: "starts other runs",
    EffectKind.EMITS_EVENT: "tells other systems",
    EffectKind.EXTERNAL_SIDE_EFFECT: "changes something outside",
    EffectKind.SENSITIVE_DATA_EGRESS: "sends sensitive data out",
}


@dataclass(frozen=True, slots=True)
class ApprovalSheet:
    """One question with the answers to the four that come before it."""

    request: ApprovalRequest
    arguments: dict[str, Any]
    where: str
    as_whom: str
    effect: str
    undo: str
    undoable: bool
    comes_from: str


def approval_sheet(*, approval_id: Any, decider: User) -> ApprovalSheet:
    """Gather everything about one question for the member who decides it, or refuse."""
    request = request_for(approval_id=approval_id, decider=decider)
    call = request.call
    tool = resolve_tool(call.tool, call.run.agent, deployment_policy())
    spec = tool.spec if tool is not None else None
    return ApprovalSheet(
        request=request,
        arguments=arguments_of(call),
        where=_where(spec),
        as_whom=f"{call.run.agent.name}, for {call.run.member.name}",
        effect=_effect(spec),
        undo=_undo(spec),
        undoable=spec is not None and _is_undoable(spec),
        comes_from=spec.source if spec is not None else "",
    )


def _where(spec: Specification | None) -> str:
    if spec is None:
        return _UNKNOWN
    match spec.effect_domain:
        case EffectDomain.OURS:
            return "Kaizen's own store."
        case EffectDomain.CHECKPOINTED:
            return "Kaizen's own store, step by step."
        case EffectDomain.EXTERNAL:
            return "The code of a package, confined in the sandbox, without network."


def _effect(spec: Specification | None) -> str:
    if spec is None:
        return _UNKNOWN
    declared = [
        _KINDS[effect.kind] + (f" {effect.resource}" if effect.resource else "")
        for effect in spec.side_effects
    ]
    said = f" It declares that it {', '.join(declared)}." if declared else ""
    return _EFFECTS[spec.effect] + said


def _undo(spec: Specification | None) -> str:
    if spec is None:
        return _UNKNOWN
    if spec.effect is Effect.READ:
        return "There is nothing to undo."
    return "Yes: earlier versions stay." if _is_undoable(spec) else "Kaizen cannot undo it."


def _is_undoable(spec: Specification) -> bool:
    return spec.effect_domain is not EffectDomain.EXTERNAL
