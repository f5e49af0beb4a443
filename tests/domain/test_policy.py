from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.domain.policy import (
    RULES,
    Admit,
    ApprovalMode,
    Ask,
    Asking,
    Facts,
    Finding,
    GrantState,
    Narrowing,
    NodeState,
    PolicyTree,
    ReceiptState,
    Refuse,
    Repeat,
    Verdict,
    approval_mode,
    decide,
    explain,
    may_ask,
)
from apps.domain.tooling import (
    Capability,
    CollaborationClass,
    Effect,
    EffectDomain,
    Family,
    Guard,
    Reason,
    RepeatPolicy,
    Specification,
    specify,
)

EMPTY = {"type": "object"}


def tool(**changes: Any) -> Specification:
    declaration: dict[str, Any] = {
        "name": "tool",
        "title": "Tool",
        "description": "A tool.",
        "input_schema": EMPTY,
        "effect": Effect.WRITE,
        "capability": Capability.ARTIFACTS_WRITE,
        "guard": Guard.MEMBER_STORE,
        "effect_domain": EffectDomain.OURS,
        "collaboration": CollaborationClass.ACTOR_BOUND_WRITE,
    }
    return specify(**{**declaration, **changes})


READS: dict[str, Any] = {
    "effect": Effect.READ,
    "capability": Capability.ARTIFACTS_READ,
    "collaboration": CollaborationClass.ACTOR_BOUND_READ,
}
OUTSIDE: dict[str, Any] = {
    "capability": Capability.PACKAGES_CALL,
    "guard": Guard.EXTERNAL,
    "effect_domain": EffectDomain.EXTERNAL,
    "later": True,
    "family": Family.PACKAGES,
    "surface": "package",
}
OWN_WRITE = tool()
SERVICE_WRITE = tool(**{**OUTSIDE, "family": Family.KAIZEN})
OWN_READ = tool(**READS)
PRIVATE_READ = tool(**{**READS, "collaboration": CollaborationClass.ACTOR_PRIVATE_READ})
PACKAGE_WRITE = tool(**OUTSIDE)
PACKAGE_READ = tool(**{**READS, **OUTSIDE})
ISOLATED = tool(guard=Guard.ISOLATED, effect_domain=EffectDomain.EXTERNAL, later=True)
SENSITIVE = tool(effect=Effect.SENSITIVE)
CONNECTED = tool(**OUTSIDE, uses_connection=True)
STRANGER = tool(collaboration=CollaborationClass.UNKNOWN)
ONCE = tool(repeat=RepeatPolicy.REDUNDANT)
TOOLS = [
    OWN_WRITE, OWN_READ, PRIVATE_READ, PACKAGE_WRITE, PACKAGE_READ, ISOLATED, SENSITIVE, STRANGER,
    ONCE, CONNECTED,
]  # fmt: skip

ALL = frozenset(Capability)
SHUT = PolicyTree({(): NodeState.DISABLED})
NOTHING = Narrowing(frozenset())
FACTS = Facts(
    member_active=True,
    member_may_take_part=True,
    member_permissions=ALL,
    agent_enabled=True,
    agent_ceiling=ALL,
    granted_tools=frozenset({"tool"}),
    in_catalog=True,
    descriptor_digest_catalog="sha256:a",
    descriptor_digest_now="sha256:a",
    tool_enabled=True,
    room_closed=False,
    roster_is_actor_only=True,
    run_state_ok=True,
    fence_ok=True,
    stop_requested=False,
)


@pytest.mark.parametrize(
    ("spec", "mode"),
    [
        (OWN_WRITE, ApprovalMode.WRITE_GUARD),
        (OWN_READ, ApprovalMode.PASS),
        (PRIVATE_READ, ApprovalMode.PASS),
        (PACKAGE_WRITE, ApprovalMode.ASK_FIRST_TIME),
        (SERVICE_WRITE, ApprovalMode.ASK_EVERY_TIME),
        (PACKAGE_READ, ApprovalMode.PASS),
        (ISOLATED, ApprovalMode.LEASE),
        (SENSITIVE, ApprovalMode.ASK_EVERY_TIME),
    ],
)
def test_the_guard_decides_what_stands_before_an_effect(
    spec: Specification, mode: ApprovalMode
) -> None:
    assert approval_mode(spec).mode is mode
    assert may_ask(spec) is mode.asks
    verdict = decide(spec, FACTS)
    if mode.asks:
        assert isinstance(verdict, Ask)
        assert verdict.rule == "somebody_said_yes"
        yes = decide(spec, replace(FACTS, approval=ReceiptState.APPROVED))
        assert yes == Admit(mode, "nothing_refuses")
    else:
        assert verdict == Admit(mode, "nothing_refuses")


@pytest.mark.parametrize(
    ("change", "rule", "reason"),
    [
        ({"fence_ok": False}, "fence_is_current", Reason.STALE_FENCE),
        ({"run_state_ok": False}, "run_is_live", Reason.RUN_OVER),
        ({"stop_requested": True}, "nobody_stopped_it", Reason.STOPPED),
        ({"room_closed": True}, "room_is_open", Reason.ROOM_CLOSED),
        ({"member_active": False}, "member_is_active", Reason.PERMISSION_DENIED),
        ({"member_may_take_part": False}, "member_takes_part", Reason.PERMISSION_DENIED),
        *(
            ({"grant": state}, "automation_grant_holds", Reason.PERMISSION_DENIED)
            for state in [*GrantState, None]
            if state not in (GrantState.HELD, GrantState.NOT_NEEDED)
        ),
        # Only a member who asks needs no grant.
        (
            {"asking": Asking(trigger="schedule")},
            "automation_grant_holds",
            Reason.PERMISSION_DENIED,
        ),
        ({"agent_enabled": False}, "agent_is_enabled", Reason.PERMISSION_DENIED),
        ({"in_catalog": False}, "tool_is_in_catalog", Reason.OUTSIDE_CATALOG),
        ({"descriptor_digest_now": "sha256:b"}, "descriptor_is_current", Reason.OUTSIDE_CATALOG),
        ({"tool_enabled": False}, "tool_is_enabled", Reason.TOOL_DISABLED),
        (
            {"tool_enabled": False, "tool_hindrance": "It cannot."},
            "tool_is_enabled",
            Reason.TOOL_DISABLED,
        ),
        (
            {"policy_tree": PolicyTree({(): NodeState.DISABLED})},
            "policy_tree_allows",
            Reason.PERMISSION_DENIED,
        ),
        (
            {"run_ceiling": Narrowing(frozenset({"docs.read"}))},
            "run_ceiling_covers",
            Reason.PERMISSION_DENIED,
        ),
        (
            {"run_selection": Narrowing(frozenset({"other"}))},
            "run_selection_holds",
            Reason.PERMISSION_DENIED,
        ),
        (
            {"member_choice": Narrowing(frozenset())},
            "member_choice_holds",
            Reason.PERMISSION_DENIED,
        ),
        ({"agent_ceiling": frozenset()}, "agent_ceiling_covers", Reason.PERMISSION_DENIED),
        ({"granted_tools": frozenset({"other"})}, "agent_was_granted", Reason.PERMISSION_DENIED),
        ({"member_permissions": frozenset()}, "member_permissions_cover", Reason.PERMISSION_DENIED),
        ({"approval": ReceiptState.DENIED}, "receipt_is_alive", Reason.APPROVAL_DENIED),
        ({"approval": ReceiptState.EXPIRED}, "receipt_is_alive", Reason.APPROVAL_EXPIRED),
        ({"approval": ReceiptState.SPENT}, "receipt_is_alive", Reason.RECEIPT_SPENT),
        ({"approval": ReceiptState.FOREIGN}, "receipt_is_alive", Reason.APPROVAL_DENIED),
        ({"same_failure": "not_found"}, "did_not_just_fail", Reason.REPEATED_FAILURE),
        ({"cut_off": True}, "tool_is_able", Reason.TOOL_CUT_OFF),
    ],
)
def test_each_rule_refuses_in_its_own_name(
    change: dict[str, Any], rule: str, reason: Reason
) -> None:
    verdict = decide(PACKAGE_READ, replace(FACTS, **change))
    assert isinstance(verdict, Refuse)
    assert (verdict.rule, verdict.reason) == (rule, reason)


def test_a_grant_that_holds_lets_a_run_that_no_person_started_go_on() -> None:
    held = replace(FACTS, grant=GrantState.HELD, asking=Asking(trigger="schedule"))
    assert isinstance(decide(PACKAGE_READ, held), Admit)


MAY_BE_ABSENT = {
    "approval", "seconded", "repeat_of", "roster_is_actor_only", "same_failure", "tool_hindrance",
    "connected",
}  # fmt: skip


@pytest.mark.parametrize("name", [f.name for f in fields(Facts) if f.name not in MAY_BE_ABSENT])
def test_an_unknown_is_a_refusal(name: str) -> None:
    assert isinstance(decide(PACKAGE_READ, replace(FACTS, **{name: None})), Refuse)


@pytest.mark.parametrize("alone", [False, None])
def test_a_private_read_needs_an_empty_room(alone: bool | None) -> None:
    verdict = decide(PRIVATE_READ, replace(FACTS, roster_is_actor_only=alone))
    assert isinstance(verdict, Refuse)
    assert verdict.rule == "room_admits"
    assert isinstance(decide(PRIVATE_READ, FACTS), Admit)


@pytest.mark.parametrize("connected", [False, None])
def test_nobody_is_asked_for_a_tool_whose_connection_is_not_there(connected: bool | None) -> None:
    facts = replace(FACTS, connected=connected)
    verdict = decide(CONNECTED, facts)
    assert isinstance(verdict, Refuse)
    assert (verdict.rule, verdict.reason) == (
        "connection_is_there",
        Reason.DEPENDENCY_UNAVAILABLE,
    )
    assert isinstance(decide(CONNECTED, replace(facts, connected=True)), Ask)
    # Who uses none needs none.
    assert isinstance(decide(PACKAGE_WRITE, facts), Ask)


def test_what_is_looked_at_when_a_call_begins_refuses_what_nobody_is_asked_about() -> None:
    spent = Refuse(Reason.QUOTA_EXCEEDED, "Used up.", "quota_holds_it")
    read = explain(PACKAGE_READ, FACTS).then(spent, "Is one left?")
    assert (read.decided_by, read.says, read.reason) == (
        "quota_holds_it",
        "Used up.",
        Reason.QUOTA_EXCEEDED,
    )
    asked = explain(PACKAGE_WRITE, FACTS).then(spent, "Is one left?")
    assert asked.decided_by == "somebody_said_yes"
    assert asked.answers[-1].finding is Finding.REFUSED


def test_a_tool_that_says_nothing_about_rooms_stays_out() -> None:
    verdict = decide(STRANGER, FACTS)
    assert isinstance(verdict, Refuse)
    assert (verdict.rule, verdict.reason) == ("room_admits", Reason.NOT_ADMITTED_HERE)


def test_only_package_tools_need_a_grant_of_their_own() -> None:
    facts = replace(FACTS, granted_tools=frozenset())
    assert isinstance(decide(OWN_WRITE, facts), Admit)
    assert isinstance(decide(PACKAGE_READ, facts), Refuse)


def test_a_redundant_write_hands_back_the_earlier_one() -> None:
    assert decide(ONCE, replace(FACTS, repeat_of="7")) == Repeat("7", "repeat_is_redundant")
    assert isinstance(decide(OWN_WRITE, replace(FACTS, repeat_of="7")), Admit)
    assert isinstance(
        decide(ONCE, replace(FACTS, repeat_of="7", agent_ceiling=frozenset())), Refuse
    )


@pytest.mark.parametrize(
    "lesson", [{"repeat_of": "7"}, {"same_failure": "conflict"}, {"cut_off": True}]
)
def test_what_a_person_confirmed_is_done_whatever_earlier_calls_taught(
    lesson: dict[str, Any],
) -> None:
    approved = replace(FACTS, approval=ReceiptState.APPROVED, **lesson)
    assert isinstance(decide(ONCE, approved), Admit)


def test_a_pending_question_keeps_asking_even_where_none_was_needed() -> None:
    for spec in (OWN_WRITE, PACKAGE_WRITE):
        assert isinstance(decide(spec, replace(FACTS, approval=ReceiptState.PENDING)), Ask)


def test_nobody_is_asked_about_a_call_that_may_not_happen() -> None:
    for name in ("member_active", "tool_enabled", "fence_ok"):
        assert isinstance(decide(PACKAGE_WRITE, replace(FACTS, **{name: False})), Refuse)


def test_rules_have_names_of_their_own() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)


yes_no_unknown = st.sampled_from([True, True, True, False, None])
capabilities = st.none() | st.frozensets(st.sampled_from(list(Capability)))
digests = st.sampled_from(["sha256:a", "sha256:a", "sha256:b", None])
facts_of = st.builds(
    Facts,
    member_active=yes_no_unknown,
    member_may_take_part=yes_no_unknown,
    member_permissions=capabilities | st.just(ALL),
    agent_enabled=yes_no_unknown,
    agent_ceiling=capabilities | st.just(ALL),
    granted_tools=st.none() | st.frozensets(st.sampled_from(["tool", "other"])),
    in_catalog=yes_no_unknown,
    descriptor_digest_catalog=digests,
    descriptor_digest_now=digests,
    tool_enabled=yes_no_unknown,
    room_closed=st.sampled_from([False, False, True, None]),
    roster_is_actor_only=yes_no_unknown,
    run_state_ok=yes_no_unknown,
    fence_ok=yes_no_unknown,
    stop_requested=st.sampled_from([False, False, True, None]),
    policy_tree=st.sampled_from([PolicyTree(), PolicyTree(), SHUT, None]),
    run_ceiling=st.sampled_from(
        [
            Narrowing(),
            Narrowing(),
            Narrowing(frozenset({Capability.ARTIFACTS_WRITE.value})),
            Narrowing(frozenset()),
            None,
        ]
    ),
    run_selection=st.sampled_from([Narrowing(), Narrowing(frozenset({"tool"})), NOTHING, None]),
    member_choice=st.sampled_from([Narrowing(), Narrowing(frozenset({"tool"})), NOTHING, None]),
    approval=st.none() | st.sampled_from(list(ReceiptState)),
    repeat_of=st.none() | st.just("7"),
    same_failure=st.none() | st.just("conflict"),
    cut_off=yes_no_unknown,
    connected=yes_no_unknown,
)


def reach(verdict: Verdict) -> int:
    """How far a verdict lets a call go."""
    return {Refuse: 0, Ask: 1, Repeat: 2, Admit: 2}[type(verdict)]


LESS: dict[str, Any] = {
    "member_active": [False, None],
    "member_may_take_part": [False, None],
    "agent_enabled": [False, None],
    "in_catalog": [False, None],
    "tool_enabled": [False, None],
    "run_state_ok": [False, None],
    "fence_ok": [False, None],
    "connected": [False, None],
    "roster_is_actor_only": [False, None],
    "room_closed": [True, None],
    "stop_requested": [True, None],
    "member_permissions": [frozenset(), None],
    "agent_ceiling": [frozenset(), None],
    "granted_tools": [frozenset(), None],
    "policy_tree": [SHUT, None],
    "run_ceiling": [NOTHING, None],
    "run_selection": [NOTHING, None],
    "member_choice": [NOTHING, None],
    "descriptor_digest_now": ["sha256:other", None],
}


@given(st.sampled_from(TOOLS), facts_of, st.data())
@settings(deadline=None, max_examples=400)
def test_taking_something_away_never_lets_more_happen(
    spec: Specification, facts: Facts, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(LESS)))
    less = replace(facts, **{name: data.draw(st.sampled_from(LESS[name]))})
    assert reach(decide(spec, less)) <= reach(decide(spec, facts))


@given(st.sampled_from(TOOLS), facts_of, st.data())
@settings(deadline=None, max_examples=400)
def test_taking_one_capability_or_grant_away_never_lets_more_happen(
    spec: Specification, facts: Facts, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(["member_permissions", "agent_ceiling", "granted_tools"]))
    held = getattr(facts, name)
    if held:
        taken = data.draw(st.sampled_from(sorted(held)))
        less = replace(facts, **{name: held - {taken}})
        assert reach(decide(spec, less)) <= reach(decide(spec, facts))


@given(st.sampled_from(TOOLS), facts_of)
@settings(deadline=None, max_examples=400)
def test_a_call_goes_ahead_only_with_every_authority(spec: Specification, facts: Facts) -> None:
    if isinstance(decide(spec, facts), Refuse):
        return
    assert facts.fence_ok
    assert facts.member_active
    assert facts.agent_enabled
    assert facts.in_catalog
    assert spec.capability in (facts.agent_ceiling or ())
    assert spec.capability in (facts.member_permissions or ())
    assert facts.room_closed is False
    assert facts.policy_tree is not None
    assert facts.policy_tree.allows(spec)
    for narrowing in (facts.run_selection, facts.member_choice):
        assert narrowing is not None
        assert narrowing.holds("tool")


@given(st.sampled_from(TOOLS), facts_of)
@settings(deadline=None, max_examples=400)
def test_an_explanation_and_the_decision_are_one_truth(spec: Specification, facts: Facts) -> None:
    explained = explain(spec, facts)
    assert explained.verdict == decide(spec, facts)
    assert [answer.rule for answer in explained.answers] == [rule.name for rule in RULES]
    spoke = [answer.rule for answer in explained.answers if answer.finding is not Finding.PASSED]
    assert explained.decided_by == (spoke[0] if spoke else "nothing_refuses")


def test_an_explanation_also_says_what_later_rules_would_have_said() -> None:
    facts = replace(FACTS, agent_enabled=False, member_choice=NOTHING)
    explained = explain(PACKAGE_WRITE, facts)
    found = {answer.rule: answer for answer in explained.answers}
    assert explained.decided_by == "agent_is_enabled"
    assert found["agent_is_enabled"].finding is Finding.REFUSED
    assert found["member_choice_holds"].finding is Finding.REFUSED
    assert found["member_choice_holds"].reason is Reason.PERMISSION_DENIED
    assert found["somebody_said_yes"].finding is Finding.ASKS
    assert found["room_is_open"].finding is Finding.PASSED
    assert all(answer.question.endswith("?") for answer in explained.answers)


def test_narrowings_only_take_away() -> None:
    some, other = Narrowing(frozenset({"a", "b"})), Narrowing(frozenset({"b", "c"}))
    assert Narrowing().narrowed(some) == some.narrowed(Narrowing()) == some
    assert some.narrowed(other) == Narrowing(frozenset({"b"}))
    assert Narrowing().narrowed(Narrowing()) == Narrowing()
