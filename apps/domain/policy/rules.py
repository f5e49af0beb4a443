"""Which questions does every call have to pass, and in which order?

The order is part of the contract: what ends everything comes first, then who, then what, then
where, and a person is asked only about a call that everything else allows.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from apps.domain.policy.facts import Facts, GrantState, Narrowing, ReceiptState
from apps.domain.policy.modes import Resolved, Waived, approval_mode, satisfies
from apps.domain.policy.tree import Why, node_words, path_of
from apps.domain.policy.verdicts import Ask, Refuse, Repeat, Verdict
from apps.domain.tooling.specification import Specification
from apps.domain.tooling.words import (
    Capability,
    CollaborationClass,
    Reason,
    RepeatPolicy,
)


class Rule(NamedTuple):
    """One named question, in its place among the others."""

    name: str
    question: str
    ask: Callable[[Specification, Facts, str], Verdict | None]


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


_LOST_GRANTS: Final = {
    GrantState.REVOKED: "The automation behind this run was revoked.",
    GrantState.EXPIRED: "The time for which the automation behind this run was granted is over.",
    GrantState.PAUSED: "The automation behind this run is paused.",
    GrantState.CHANGED: "The automation behind this run has changed since the run started.",
    GrantState.NOT_READY: "This deployment lets nothing run at the moment that no person started.",
}


def _automation_grant_holds(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
    if facts.grant is GrantState.HELD:
        return None
    unattended = facts.asking is not None and facts.asking.unattended
    if facts.grant is GrantState.NOT_NEEDED and not unattended:
        return None
    message = "On whose authority this run works could not be established."
    if facts.grant in _LOST_GRANTS:
        message = _LOST_GRANTS[facts.grant]
    return Refuse(Reason.PERMISSION_DENIED, message, rule)


def _tool_is_enabled(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
    if facts.tool_enabled is True:
        return None
    said = facts.tool_hindrance or "The tool is switched off."
    return Refuse(Reason.TOOL_DISABLED, said, rule)


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
    if facts.policy_tree is None:
        message = "The tool policy of this deployment could not be read."
        return Refuse(Reason.PERMISSION_DENIED, message, rule)
    standing = facts.policy_tree.standing(path_of(spec))
    if standing.allowed:
        return None
    where = node_words(standing.decided_by)
    match standing.why:
        case Why.UNREADABLE:
            message = f"What the tool policy says about {where} could not be read."
        case Why.NOT_LET_IN:
            message = f"Nobody has let in {node_words(path_of(spec)[:2])} of {where}."
        case _:
            message = f"The tool policy of this deployment switches off {where}."
    return Refuse(Reason.PERMISSION_DENIED, message, rule)


def _narrowing(
    read: Callable[[Facts], Narrowing | None], named: Callable[[Specification], str], message: str
) -> Callable[[Specification, Facts, str], Verdict | None]:
    """Refuse what a known narrowing leaves out, and everything where it is not known."""

    def ask(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
        held = read(facts)
        if held is not None and held.holds(named(spec)):
            return None
        return Refuse(Reason.PERMISSION_DENIED, message, rule)

    return ask


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


def _connection_is_there(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
    if not spec.uses_connection or facts.connected is True:
        return None
    return Refuse(Reason.DEPENDENCY_UNAVAILABLE, lacks_connection(spec), rule)


def lacks_connection(spec: Specification) -> str:
    """Say that a tool has no connection that it may use, when it is proposed or when it begins."""
    return f"{spec.title} needs a connection to another system, and there is none that it may use."


def _not_a_repeat(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
    # A question that a person was asked is no earlier write: what was confirmed is done.
    if facts.approval is not None:
        return None
    if spec.repeat is RepeatPolicy.REDUNDANT and facts.repeat_of is not None:
        return Repeat(facts.repeat_of, rule)
    return None


def _did_not_just_fail(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
    if facts.same_failure is None or facts.approval is not None:
        return None
    message = (
        f"Exactly this call just failed ({facts.same_failure}), and nothing has changed since: the"
        " same input is not the repair, so the tool was not called. Change the arguments, use"
        " another tool, or say what failed."
    )
    return Refuse(Reason.REPEATED_FAILURE, message, rule)


def _tool_is_able(spec: Specification, facts: Facts, rule: str) -> Verdict | None:
    if facts.cut_off is False or facts.approval is not None:
        return None
    message = (
        f"{spec.title} has failed several different requests of this turn, so it is not called"
        " again before the next one. Go on without it, or say what it could not do."
    )
    return Refuse(Reason.TOOL_CUT_OFF, message, rule)


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


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "fence_is_current",
        "Does the one who asks still hold the run?",
        _must(lambda f: f.fence_ok, Reason.STALE_FENCE, "Another worker has taken this run over."),
    ),
    Rule(
        "run_is_live",
        "Is the run still going on?",
        _must(lambda f: f.run_state_ok, Reason.RUN_OVER, "The run is over."),
    ),
    Rule(
        "nobody_stopped_it",
        "Has nobody asked the run to stop?",
        _must_not(lambda f: f.stop_requested, Reason.STOPPED, "The run was asked to stop."),
    ),
    Rule(
        "room_is_open",
        "Is the room open?",
        _must_not(lambda f: f.room_closed, Reason.ROOM_CLOSED, "The room is closed."),
    ),
    Rule(
        "member_is_active",
        "Is the member's account open?",
        _must(
            lambda f: f.member_active, Reason.PERMISSION_DENIED, "The member's account is closed."
        ),
    ),
    Rule(
        "member_takes_part",
        "Does the member take part in the room?",
        _must(
            lambda f: f.member_may_take_part,
            Reason.PERMISSION_DENIED,
            "The member does not take part in this room.",
        ),
    ),
    Rule(
        "automation_grant_holds",
        "Did a member ask, or does the automation that did still hold as it was?",
        _automation_grant_holds,
    ),
    Rule(
        "agent_is_enabled",
        "Is the agent switched on?",
        _must(lambda f: f.agent_enabled, Reason.PERMISSION_DENIED, "The agent is switched off."),
    ),
    Rule(
        "tool_is_in_catalog",
        "Was the tool offered to this run when it began?",
        _must(
            lambda f: f.in_catalog, Reason.OUTSIDE_CATALOG, "The tool is not in this run's catalog."
        ),
    ),
    Rule(
        "descriptor_is_current",
        "Is the tool still what it was when the run began?",
        _descriptor_is_current,
    ),
    Rule(
        "tool_is_enabled",
        "Is the tool switched on in this deployment?",
        _tool_is_enabled,
    ),
    Rule("policy_tree_allows", "Does the tool policy allow it?", _allowed_by_tree),
    Rule("agent_ceiling_covers", "Does the agent's ceiling cover it?", _within_agent_ceiling),
    Rule(
        "run_ceiling_covers",
        "Does what this run was given cover it?",
        _narrowing(
            lambda f: f.run_ceiling,
            lambda spec: spec.capability.value,
            "This run was given less than the agent's ceiling, and this lies outside.",
        ),
    ),
    Rule("agent_was_granted", "Was the agent granted this tool?", _granted),
    Rule(
        "run_selection_holds",
        "Was the tool left in when the run began?",
        _narrowing(
            lambda f: f.run_selection,
            lambda spec: spec.name,
            "The tool was left out when this run began.",
        ),
    ),
    Rule(
        "member_choice_holds",
        "Does the member leave it to the agent in this room?",
        _narrowing(
            lambda f: f.member_choice,
            lambda spec: spec.name,
            "The member has taken this tool from the agent in this room.",
        ),
    ),
    Rule(
        "member_permissions_cover",
        "May the member do what it needs?",
        _within_member_permissions,
    ),
    Rule("room_admits", "May it be used before those who are in the room?", _room_admits),
    Rule(
        "connection_is_there",
        "Is the connection there that the tool uses, if it uses one?",
        _connection_is_there,
    ),
    Rule("repeat_is_redundant", "Is it new in this turn?", _not_a_repeat),
    Rule("did_not_just_fail", "Has this exact call not just failed?", _did_not_just_fail),
    Rule("tool_is_able", "Did the tool do its job so far in this turn?", _tool_is_able),
    Rule("receipt_is_alive", "Can the answer that was given still be used?", _receipt_is_alive),
    Rule("somebody_said_yes", "Does it need nobody's yes, or has it one?", _somebody_said_yes),
)
