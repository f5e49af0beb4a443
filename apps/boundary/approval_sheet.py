"""What does a member see before a yes? Where to, as whom, what effect, can it be undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.accounts.models import User
from apps.approvals.models import Answer, ApprovalRequest
from apps.approvals.selectors import request_for
from apps.domain.policy import Second
from apps.domain.tooling import Effect, EffectDomain, EffectKind, Family, Guard, Specification
from apps.grants.policy import deployment_policy
from apps.runs.bodies import arguments_of
from apps.runs.models import Run
from apps.tools.catalog import resolve_tool
from apps.tools.contract import Tool
from apps.tools.credentials import account_of

_SECONDS = {
    Second.ROOM_OWNER: "The room's owner, or an administrator",
    Second.ADMINISTRATOR: "An administrator",
}
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
class Asked:
    """One of the people who have to say yes."""

    part: str
    who: str
    person: User | None
    """Who answered, or the one who alone can."""
    said: bool | None
    at: datetime | None


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
    pinned: tuple[str, ...]
    """The arguments that the deployment set, which nobody here can change."""
    people: tuple[Asked, ...]
    """Who has to say yes, and what they said."""
    may_answer: bool
    may_edit: bool
    may_remember: bool


def approval_sheet(*, approval_id: Any, decider: User) -> ApprovalSheet:
    """Gather everything about one question for one who decides it, or refuse."""
    request = request_for(approval_id=approval_id, decider=decider)
    call = request.call
    answers = {row.part: row for row in request.answers.select_related("by")}
    waits = request.state == ApprovalRequest.State.PENDING
    tool = resolve_tool(call.tool, call.run.agent, deployment_policy())
    spec = tool.spec if tool is not None else None
    return ApprovalSheet(
        request=request,
        arguments=arguments_of(call),
        where=_where(tool),
        as_whom=_as_whom(call.run, spec),
        effect=_effect(spec),
        undo=_undo(spec),
        undoable=spec is not None and _is_undoable(spec),
        comes_from=spec.source if spec is not None else "",
        pinned=tuple(call.pinned),
        people=_people(request, answers),
        may_answer=waits and _may_answer(request, answers, decider),
        may_edit=waits and tool is not None and decider.pk == request.decider_id,
        may_remember=waits and request.may_remember and decider.pk == request.decider_id,
    )


def _may_answer(request: ApprovalRequest, answers: Mapping[str, Answer], person: User) -> bool:
    mine = Answer.Part.FIRST if person.pk == request.decider_id else Answer.Part.SECOND
    return mine not in answers


def _people(request: ApprovalRequest, answers: Mapping[str, Answer]) -> tuple[Asked, ...]:
    first = answers.get(Answer.Part.FIRST)
    member = _asked(Answer.Part.FIRST, request.decider.name, first, request.decider)
    if request.second == Second.NOBODY:
        return (member,)
    second = answers.get(Answer.Part.SECOND)
    who = second.by.name if second is not None else _SECONDS[Second(request.second)]
    return (member, _asked(Answer.Part.SECOND, who, second, second.by if second else None))


def _asked(part: str, who: str, answer: Answer | None, person: User | None) -> Asked:
    said, at = (None, None) if answer is None else (answer.yes, answer.at)
    return Asked(part=str(part), who=who, person=person, said=said, at=at)


def _as_whom(run: Run, spec: Specification | None) -> str:
    account = "" if spec is None else account_of(spec=spec, member=run.member)
    return f"{run.agent.name}, for {run.member.name}" + (f", with {account}" if account else "")


def _where(tool: Tool | None) -> str:
    if tool is None:
        return _UNKNOWN
    spec = tool.spec
    match spec.effect_domain:
        case EffectDomain.OURS:
            return "Kaizen's own store."
        case EffectDomain.CHECKPOINTED if spec.guard is Guard.ISOLATED:
            where = _network(spec)
            return f"A program in the sandbox, {where}; its files in Kaizen's own store."
        case EffectDomain.CHECKPOINTED:
            return "Kaizen's own store, step by step."
        case EffectDomain.EXTERNAL if spec.family is Family.PACKAGES and not tool.runs_code:
            if not spec.reaches:
                return "The files of a package, which Kaizen itself reads."
            sent = "A request that Kaizen sends itself, as the package declares it"
            return f"{sent}: to {', '.join(spec.reaches)}."
        case EffectDomain.EXTERNAL if spec.family is Family.PACKAGES:
            return f"The code of a package, confined in the sandbox, {_network(spec)}."
        case EffectDomain.EXTERNAL:
            return f"Outside of Kaizen: {spec.surface}."


def _network(spec: Specification) -> str:
    return f"which may reach {', '.join(spec.reaches)}" if spec.reaches else "without network"


def _effect(spec: Specification | None) -> str:
    if spec is None:
        return _UNKNOWN
    declared = [
        _KINDS[effect.kind] + (f" ({effect.resource})" if effect.resource else "")
        for effect in spec.side_effects
    ]
    said = f" It declares that it {', '.join(declared)}." if declared else ""
    if spec.pauses is not None:
        said += (
            f" It may wait up to {spec.pauses.most_s // 3600} hours for another system's answer."
        )
    return _EFFECTS[spec.effect] + said


def _undo(spec: Specification | None) -> str:
    if spec is None:
        return _UNKNOWN
    if spec.effect is Effect.READ:
        return "There is nothing to undo."
    return "Yes: earlier versions stay." if _is_undoable(spec) else "Kaizen cannot undo it."


def _is_undoable(spec: Specification) -> bool:
    return spec.effect_domain is not EffectDomain.EXTERNAL
