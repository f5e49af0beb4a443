"""May this call go ahead? A pure answer from gathered facts, and the rule that gave it.

The rules are asked in one fixed order and the first that has something to say decides. A fact
that nobody could establish is `None`, and an unknown is always a refusal.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from apps.domain.asking import (
    ApprovalMode,
    Asking,
    Resolved,
    Second,
    Waived,
    approval_mode,
    satisfies,
)
from apps.domain.tooling.specification import Specification
from apps.domain.tooling.words import (
    Capability,
    CollaborationClass,
    Reason,
    RepeatPolicy,
)


class ReceiptState(StrEnum):
    """What became of the question that this exact call was asked about."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    SPENT = "spent"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class PolicyTree:
    """What the deployment denies, by exact tool name; the empty tree denies nothing."""

    denied: frozenset[str] = frozenset()

    def denies(self, spec: Specification) -> bool:
        """Tell whether the deployment rules a tool out."""
        return spec.name in self.denied


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything the decision rests on, read now; `None` means that it could not be read."""

    member_active: bool | None
    member_may_take_part: bool | None
    member_permissions: frozenset[Capability] | None
    agent_enabled: bool | None
    agent_ceiling: frozenset[Capability] | None
    granted_tools: frozenset[str] | None
    in_catalog: bool | None
    descriptor_digest_catalog: str | None
    descriptor_digest_now: str | None
    tool_enabled: bool | None
    room_closed: bool | None
    roster_is_actor_only: bool | None
    run_state_ok: bool | None
    fence_ok: bool | None
    stop_requested: bool | None
    policy_tree: PolicyTree | None = field(default_factory=PolicyTree)
    # What the member wants, what the rules ask for, and what was allowed before.
    asking: Asking | None = field(default_factory=Asking)
    approval: ReceiptState | None = None
    # Under which rule somebody gave the second yes that this call's receipt holds.
    seconded: Second = Second.NOBODY
    # The id of an earlier identical write of this turn that succeeded and was answered.
    repeat_of: str | None = None


@dataclass(frozen=True, slots=True)
class Admit:
    """The call may go ahead, under this mode."""

    mode: ApprovalMode
    rule: str
    # Why a call that would have asked passed without a question.
    waived: Waived = Waived.NOT


@dataclass(frozen=True, slots=True)
class Ask:
    """Somebody has to say yes first."""

    mode: ApprovalMode
    why: str
    rule: str
    second: Second = Second.NOBODY
    # Whether the one who is asked may allow exactly this call from now on.
    may_remember: bool = False
    expires_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """The call may not go ahead."""

    reason: Reason
    message: str
    rule: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same write was made earlier in this turn; its result is handed back."""

    call_id: str
    rule: str


Verdict = Admit | Ask | Refuse | Repeat


class Rule(NamedTuple):
    """One named question, in its place among the others."""

    name: str
    ask: Callable[[Specification, Facts, str], Verdict | None]


def decide(spec: Specification, facts: Facts) -> Verdict:
    """Return the verdict of the first rule that has one, or admit under the tool's own mode."""
    for rule in RULES:
        verdict = rule.ask(spec, facts, rule.name)
        if verdict is not None:
            return verdict
    resolved = approval_mode(spec, facts.asking)
    waived = Waived.NOT if facts.approval is ReceiptState.APPROVED else resolved.waived
    return Admit(resolved.mode, "nothing_refuses", waived)


def needs_grant(spec: Specification) -> bool:
    """Tell whether an agent must have been granted this exact tool by name."""
    return spec.capability is Capability.PACKAGES_CALL


def _must(
    held: Callable[[Facts], bool | None], reason: Reason, message: str
) -> Callable[[Specification, Facts, str], Verdict | None]:
    """Refuse unless a fact is known to be true."""

    def ask(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
        return None if held(facts) is True else Refuse(reason, message, rule)

    return ask


def _must_not(
    held: Callable[[Facts], bool | None], reason: Reason, message: str
) -> Callable[[Specification, Facts, str], Verdict | None]:
    """Refuse unless a fact is known to be false."""

    def ask(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
        return None if held(facts) is False else Refuse(reason, message, rule)

    return ask


def _descriptor_is_current(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
    frozen, now = facts.descriptor_digest_catalog, facts.descriptor_digest_now
    if frozen is not None and frozen == now:
        return None
    return Refuse(
        Reason.OUTSIDE_CATALOG, "The tool has changed since this run's catalog was frozen.", rule
    )


def _within_member_permissions(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
    if facts.member_permissions is not None and spec.capability in facts.member_permissions:
        return None
    return Refuse(
        Reason.PERMISSION_DENIED, f"The member may not do what this needs: {spec.capability}.", rule
    )


def _within_agent_ceiling(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
    if facts.agent_ceiling is not None and spec.capability in facts.agent_ceiling:
        return None
    return Refuse(
        Reason.PERMISSION_DENIED, f"The agent's ceiling leaves out {spec.capability}.", rule
    )


def _granted(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
    if not needs_grant(spec):
        return None
    if facts.granted_tools is not None and spec.name in facts.granted_tools:
        return None
    return Refuse(
        Reason.PERMISSION_DENIED, "The agent has not been granted this package tool.", rule
    )


def _allowed_by_tree(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
    if facts.policy_tree is not None and not facts.policy_tree.denies(spec):
        return None
    return Refuse(Reason.PERMISSION_DENIED, "This deployment does not allow the tool.", rule)


def _room_admits(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
    match spec.collaboration:
        case (
            CollaborationClass.EXACT_ROOM
            | CollaborationClass.AUDIENCE_READ
            | CollaborationClass.ACTOR_BOUND_READ
            | CollaborationClass.ACTOR_BOUND_WRITE
        ):
            return None
        case CollaborationClass.ACTOR_PRIVATE_READ if facts.roster_is_actor_only is True:
            return None
        case CollaborationClass.ACTOR_PRIVATE_READ:
            message = "The tool reads what is private to one member, and others are in the room."
        case _:
            message = "The tool says nothing of what it shows to a room, so it stays out."
    return Refuse(Reason.NOT_ADMITTED_HERE, message, rule)


def _not_a_repeat(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
    if spec.repeat is RepeatPolicy.REDUNDANT and facts.repeat_of is not None:
        return Repeat(facts.repeat_of, rule)
    return None


_DEAD_RECEIPTS: Final = {
    ReceiptState.DENIED: (Reason.APPROVAL_DENIED, "The call was denied."),
    ReceiptState.EXPIRED: (Reason.APPROVAL_EXPIRED, "The question expired without an answer."),
    ReceiptState.SPENT: (Reason.RECEIPT_SPENT, "This approval was already used."),
    ReceiptState.FOREIGN: (Reason.APPROVAL_DENIED, "The approval was given for another call."),
}


def _receipt_is_alive(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
    if facts.approval is None or facts.approval not in _DEAD_RECEIPTS:
        return None
    reason, message = _DEAD_RECEIPTS[facts.approval]
    return Refuse(reason, message, rule)


def _somebody_said_yes(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
    if facts.asking is None:
        return Refuse(
            Reason.PERMISSION_DENIED, "Who has to be asked could not be established.", rule
        )
    resolved = approval_mode(spec, facts.asking)
    if facts.approval is ReceiptState.APPROVED:
        if satisfies(facts.seconded, resolved.second):
            return None
        return Refuse(
            Reason.APPROVAL_DENIED, "The rules now ask for a second yes, and one was given.", rule
        )
    if facts.approval is ReceiptState.PENDING:
        return _ask(resolved, facts, "The question was asked and has not been answered yet.", rule)
    if not resolved.mode.asks or resolved.waived is not Waived.NOT:
        return None
    return _ask(resolved, facts, resolved.why, rule)


def _ask(resolved: Resolved, facts: Facts, why: str, rule: str) -> Ask:
    return Ask(
        resolved.mode,
        why,
        rule,
        resolved.second,
        resolved.may_remember,
        None if facts.asking is None else facts.asking.policy.expires_after_s,
    )


# The order is part of the contract: what ends everything comes first, then who, then what,
# then where, and a person is asked only about a call that everything else allows.
RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "fence_is_current",
        _must(lambda f: f.fence_ok, Reason.STALE_FENCE, "Another worker has taken this run over."),
    ),
    Rule("run_is_live", _must(lambda f: f.run_state_ok, Reason.RUN_OVER, "The run is over.")),
    Rule(
        "nobody_stopped_it",
        _must_not(lambda f: f.stop_requested, Reason.STOPPED, "The run was asked to stop."),
    ),
    Rule(
        "room_is_open",
        _must_not(lambda f: f.room_closed, Reason.ROOM_CLOSED, "The room is closed."),
    ),
    Rule(
        "member_is_active",
        _must(
            lambda f: f.member_active, Reason.PERMISSION_DENIED, "The member's account is closed."
        ),
    ),
    Rule(
        "member_takes_part",
        _must(
            lambda f: f.member_may_take_part,
            Reason.PERMISSION_DENIED,
            "The member does not take part in this room.",
        ),
    ),
    Rule(
        "agent_is_enabled",
        _must(lambda f: f.agent_enabled, Reason.PERMISSION_DENIED, "The agent is switched off."),
    ),
    Rule(
        "tool_is_in_catalog",
        _must(
            lambda f: f.in_catalog, Reason.OUTSIDE_CATALOG, "The tool is not in this run's catalog."
        ),
    ),
    Rule("descriptor_is_current", _descriptor_is_current),
    Rule(
        "tool_is_enabled",
        _must(lambda f: f.tool_enabled, Reason.TOOL_DISABLED, "The tool is switched off."),
    ),
    Rule("policy_tree_allows", _allowed_by_tree),
    Rule("agent_ceiling_covers", _within_agent_ceiling),
    Rule("agent_was_granted", _granted),
    Rule("member_permissions_cover", _within_member_permissions),
    Rule("room_admits", _room_admits),
    Rule("repeat_is_redundant", _not_a_repeat),
    Rule("receipt_is_alive", _receipt_is_alive),
    Rule("somebody_said_yes", _somebody_said_yes),
)
