"""Who is asked: the tool proposes, the member chooses, the rules only tighten."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from apps.domain.policy import (
    ApprovalMode,
    Asking,
    AskPolicy,
    AskRule,
    Floor,
    MemberMode,
    Scope,
    Second,
    Waived,
    approval_mode,
    ask_policy,
    may_ask,
)
from apps.domain.policy.modes import satisfies
from apps.domain.tooling import (
    Capability,
    CollaborationClass,
    Effect,
    EffectDomain,
    Family,
    Guard,
    Specification,
    specify,
)

PASS, GUARD = ApprovalMode.PASS, ApprovalMode.WRITE_GUARD
FIRST, EVERY = ApprovalMode.ASK_FIRST_TIME, ApprovalMode.ASK_EVERY_TIME


def tool(**changes: Any) -> Specification:
    declaration: dict[str, Any] = {
        "name": "tool",
        "title": "Tool",
        "description": "A tool.",
        "input_schema": {"type": "object"},
        "effect": Effect.WRITE,
        "capability": Capability.ARTIFACTS_WRITE,
        "guard": Guard.MEMBER_STORE,
        "effect_domain": EffectDomain.OURS,
        "collaboration": CollaborationClass.ACTOR_BOUND_WRITE,
        "surface": "desk",
    }
    return specify(**{**declaration, **changes})


READS: dict[str, Any] = {
    "effect": Effect.READ,
    "capability": Capability.ARTIFACTS_READ,
    "collaboration": CollaborationClass.ACTOR_BOUND_READ,
}
OUTSIDE: dict[str, Any] = {
    "guard": Guard.EXTERNAL,
    "effect_domain": EffectDomain.EXTERNAL,
    "later": True,
}
READ = tool(**READS)
OWN = tool()
SERVICE = tool(**OUTSIDE)
PACKAGE = tool(
    **OUTSIDE, family=Family.PACKAGES, surface="letters", capability=Capability.PACKAGES_CALL
)
SENSITIVE = tool(effect=Effect.SENSITIVE)
ASKS_ALONE = tool(needs_approval_when_unattended=True)
CONNECTED = tool(**{**READS, **OUTSIDE}, uses_connection=True)
TOOLS = [READ, OWN, SERVICE, PACKAGE, SENSITIVE, ASKS_ALONE, CONNECTED]


def asking(mode: MemberMode = MemberMode.AS_DECLARED, **more: Any) -> Asking:
    return Asking(member_mode=mode, **more)


@pytest.mark.parametrize(
    ("spec", "declared", "first_use", "always"),
    [
        (READ, PASS, PASS, EVERY),
        (OWN, GUARD, FIRST, EVERY),
        (SERVICE, EVERY, FIRST, EVERY),
        (PACKAGE, FIRST, FIRST, EVERY),
        (SENSITIVE, EVERY, EVERY, EVERY),
    ],
)
def test_a_member_chooses_how_to_be_asked(
    spec: Specification, declared: ApprovalMode, first_use: ApprovalMode, always: ApprovalMode
) -> None:
    assert approval_mode(spec, asking()).mode is declared
    assert approval_mode(spec, asking(MemberMode.FIRST_USE)).mode is first_use
    assert approval_mode(spec, asking(MemberMode.ALWAYS)).mode is always


@pytest.mark.parametrize("spec", [SERVICE, PACKAGE, SENSITIVE])
def test_never_asking_needs_a_rule_that_allows_it(spec: Specification) -> None:
    assert approval_mode(spec, asking(MemberMode.NEVER)).waived is Waived.NOT
    allowed = asking(MemberMode.NEVER, policy=AskPolicy(never_allowed=True))
    assert approval_mode(spec, allowed).waived is Waived.NEVER_ASK
    # Allowing it asks nobody to choose it.
    assert approval_mode(spec, replace(allowed, member_mode=MemberMode.AS_DECLARED)).waived is (
        Waived.NOT
    )


def test_a_floor_stands_above_every_wish() -> None:
    for mode in MemberMode:
        policy = AskPolicy(floor=Floor.ALWAYS, never_allowed=True)
        resolved = approval_mode(PACKAGE, asking(mode, policy=policy, remembered=True))
        assert (resolved.mode, resolved.waived) == (EVERY, Waived.NOT)
    assert approval_mode(READ, asking(policy=AskPolicy(floor=Floor.FIRST_USE))).mode is FIRST


def test_rules_only_ever_tighten() -> None:
    order = [PASS, GUARD, ApprovalMode.LEASE, FIRST, EVERY]
    for spec, mode, floor in product(TOOLS, MemberMode, Floor):
        free = approval_mode(spec, asking(mode))
        bound = approval_mode(spec, asking(mode, policy=AskPolicy(floor=floor)))
        assert order.index(bound.mode) >= order.index(free.mode)


def test_an_exact_call_that_was_allowed_before_passes_where_first_use_is_possible() -> None:
    assert approval_mode(PACKAGE, asking()).may_remember
    assert approval_mode(PACKAGE, asking(remembered=True)).waived is Waived.FIRST_USE
    assert approval_mode(SERVICE, asking(remembered=True)).waived is Waived.FIRST_USE
    for spec, stricter in (
        (SENSITIVE, asking(remembered=True)),
        (PACKAGE, asking(MemberMode.ALWAYS, remembered=True)),
        (PACKAGE, asking(policy=AskPolicy(floor=Floor.ALWAYS), remembered=True)),
    ):
        resolved = approval_mode(spec, stricter)
        assert (resolved.waived, resolved.may_remember) == (Waived.NOT, False)


def test_a_second_yes_cannot_be_wished_or_remembered_away() -> None:
    policy = AskPolicy(second=Second.ADMINISTRATOR, never_allowed=True)
    for mode in MemberMode:
        resolved = approval_mode(SENSITIVE, asking(mode, policy=policy, remembered=True))
        assert (resolved.mode, resolved.second) == (EVERY, Second.ADMINISTRATOR)
        assert resolved.waived is Waived.NOT


def test_one_second_yes_is_as_good_as_the_person_who_gives_it() -> None:
    assert satisfies(Second.ADMINISTRATOR, Second.ROOM_OWNER)
    assert not satisfies(Second.ROOM_OWNER, Second.ADMINISTRATOR)
    assert not satisfies(Second.NOBODY, Second.ROOM_OWNER)


@pytest.mark.parametrize("spec", [ASKS_ALONE, CONNECTED])
@pytest.mark.parametrize("trigger", ["schedule", "webhook", "event", "mail", "service"])
@pytest.mark.parametrize("mode", list(MemberMode))
def test_what_asks_when_unattended_asks_every_time_whatever_was_chosen(
    spec: Specification, trigger: str, mode: MemberMode
) -> None:
    facts = asking(mode, trigger=trigger, remembered=True, policy=AskPolicy(never_allowed=True))
    resolved = approval_mode(spec, facts)
    assert (resolved.mode, resolved.waived, resolved.may_remember) == (EVERY, Waived.NOT, False)
    assert may_ask(spec, facts)


def test_a_named_trigger_may_lift_it_but_not_the_rules() -> None:
    lifted = asking(trigger="schedule", allowed_unattended=True)
    assert approval_mode(ASKS_ALONE, lifted).waived is Waived.ALLOWED_UNATTENDED
    for policy in (AskPolicy(floor=Floor.FIRST_USE), AskPolicy(second=Second.ROOM_OWNER)):
        assert approval_mode(ASKS_ALONE, replace(lifted, policy=policy)).waived is Waived.NOT


def test_a_run_that_a_mail_started_asks_for_everything_but_reads() -> None:
    for spec in (OWN, SERVICE, PACKAGE, SENSITIVE):
        assert approval_mode(spec, asking(MemberMode.NEVER, trigger="mail")).mode is EVERY
    assert approval_mode(READ, asking(trigger="mail")).mode is PASS
    assert approval_mode(OWN, asking(trigger="schedule")).mode is GUARD
    assert approval_mode(ASKS_ALONE, asking()).mode is GUARD


def rule(**words: Any) -> AskRule:
    return AskRule(**words)


def test_rules_of_all_levels_count_together() -> None:
    rules = [
        rule(expires_after_s=600),
        rule(family="packages", floor=Floor.FIRST_USE, never_allowed=True),
        rule(family="packages", surface="letters", expires_after_s=3600),
        rule(family="packages", surface="other", floor=Floor.ALWAYS),
        rule(family="packages", surface="letters", tool="tool", floor=Floor.NONE),
    ]
    found = ask_policy(PACKAGE, rules)
    assert (found.floor, found.never_allowed, found.expires_after_s) == (Floor.FIRST_USE, True, 600)
    assert ask_policy(READ, rules) == AskPolicy(expires_after_s=600)


@pytest.mark.parametrize("above", [True, False])
def test_a_no_on_any_level_is_final(above: bool) -> None:
    rules = [
        rule(never_allowed=not above),
        rule(family="packages", surface="letters", tool="tool", never_allowed=above),
    ]
    assert ask_policy(PACKAGE, rules).never_allowed is False


def test_a_second_yes_is_asked_for_what_the_rule_says() -> None:
    sensitive = [rule(second=Second.ROOM_OWNER)]
    assert ask_policy(SENSITIVE, sensitive).second is Second.ROOM_OWNER
    assert ask_policy(PACKAGE, sensitive).second is Second.NOBODY
    writes = [*sensitive, rule(second=Second.ADMINISTRATOR, second_for=Scope.WRITES)]
    assert ask_policy(PACKAGE, writes).second is Second.ADMINISTRATOR
    assert ask_policy(SENSITIVE, writes).second is Second.ADMINISTRATOR
    assert ask_policy(READ, writes).second is Second.NOBODY
