"""Who has to say yes to this call? A pure answer from the tool, the member's wish and the policy.

The tool's guard proposes, the member chooses for their own runs, and the deployment's policy only
tightens. A run that no person started asks for what its tools declare, whatever anybody chose.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from apps.domain.tooling.specification import Specification
from apps.domain.tooling.words import Effect, Family, Guard

MAIL: Final = "mail"


class ApprovalMode(StrEnum):
    """What stands between a permitted call and its effect."""

    PASS = "pass"  # noqa: S105 - a mode, not a password
    WRITE_GUARD = "write_guard"
    LEASE = "lease"
    ASK_FIRST_TIME = "ask_first_time"
    ASK_EVERY_TIME = "ask_every_time"

    @property
    def asks(self) -> bool:
        """Tell whether a person is asked under this mode."""
        return self in (ApprovalMode.ASK_FIRST_TIME, ApprovalMode.ASK_EVERY_TIME)


class MemberMode(StrEnum):
    """What a member chose for the runs that work for them."""

    AS_DECLARED = "as_declared"
    FIRST_USE = "first_use"
    ALWAYS = "always"
    NEVER = "never"


class Floor(StrEnum):
    """The least that the deployment's policy asks for."""

    NONE = ""
    FIRST_USE = "first_use"
    ALWAYS = "always"


class Second(StrEnum):
    """Who has to say the second yes: nobody, the room's owner, or an administrator."""

    NOBODY = ""
    ROOM_OWNER = "room_owner"
    ADMINISTRATOR = "administrator"


class Scope(StrEnum):
    """Which calls need the second yes."""

    SENSITIVE = "sensitive"
    WRITES = "writes"


class Waived(StrEnum):
    """Why a call that would have asked passed without a question."""

    NOT = ""
    NEVER_ASK = "never_ask"
    FIRST_USE = "first_use"
    ALLOWED_UNATTENDED = "allowed_unattended"


_STRICTNESS: Final = {Floor.NONE: 0, Floor.FIRST_USE: 1, Floor.ALWAYS: 2}
_ASKS_BY_FLOOR: Final = {
    Floor.FIRST_USE: ApprovalMode.ASK_FIRST_TIME,
    Floor.ALWAYS: ApprovalMode.ASK_EVERY_TIME,
}
_SECONDS: Final = {Second.NOBODY: 0, Second.ROOM_OWNER: 1, Second.ADMINISTRATOR: 2}


class Ruled(Protocol):
    """What a rule looks at of a tool, so that it can be asked of one that is only listed."""

    @property
    def family(self) -> str: ...

    @property
    def surface(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def effect(self) -> Effect: ...


@dataclass(frozen=True, slots=True)
class AskRule:
    """What an administrator decided for one node of the policy tree; blanks widen it."""

    family: str = ""
    surface: str = ""
    tool: str = ""
    floor: Floor = Floor.NONE
    # None leaves it to the other levels; a no on any level is final.
    never_allowed: bool | None = None
    second: Second = Second.NOBODY
    second_for: Scope = Scope.SENSITIVE
    expires_after_s: int | None = None

    def covers(self, tool: Ruled) -> bool:
        """Tell whether the rule speaks of this tool."""
        return all(
            wanted in ("", actual)
            for wanted, actual in (
                (self.family, str(tool.family)),
                (self.surface, tool.surface),
                (self.tool, tool.name),
            )
        )


@dataclass(frozen=True, slots=True)
class AskPolicy:
    """What all rules together say of one tool."""

    floor: Floor = Floor.NONE
    never_allowed: bool = False
    second: Second = Second.NOBODY
    expires_after_s: int | None = None


def ask_policy(tool: Ruled, rules: Iterable[AskRule]) -> AskPolicy:
    """Put the rules that cover a tool together; each can only tighten what the others say."""
    covering = [rule for rule in rules if rule.covers(tool)]
    said = {rule.never_allowed for rule in covering}
    asked = [rule.second for rule in covering if _counts(rule.second_for, tool)]
    times = [rule.expires_after_s for rule in covering if rule.expires_after_s is not None]
    return AskPolicy(
        floor=max(
            (rule.floor for rule in covering), key=_STRICTNESS.__getitem__, default=Floor.NONE
        ),
        never_allowed=True in said and False not in said,
        second=max(asked, key=_SECONDS.__getitem__, default=Second.NOBODY),
        expires_after_s=min(times, default=None),
    )


def asks_by_default(tool: Ruled, declared: ApprovalMode, rules: Iterable[AskRule]) -> bool:
    """Tell whether a call asks where its member chose nothing: as declared, or as rules tighten."""
    policy = ask_policy(tool, rules)
    return declared.asks or policy.floor in _ASKS_BY_FLOOR or policy.second is not Second.NOBODY


def _counts(scope: Scope, tool: Ruled) -> bool:
    if tool.effect is Effect.SENSITIVE:
        return True
    return scope is Scope.WRITES and tool.effect is not Effect.READ


@dataclass(frozen=True, slots=True)
class Asking:
    """What the question rests on besides the tool, as it was read at this call."""

    member_mode: MemberMode = MemberMode.AS_DECLARED
    policy: AskPolicy = field(default_factory=AskPolicy)
    # Who started the run: a member, or one of the words for what is nobody.
    trigger: str = "member"
    allowed_unattended: bool = False
    # This member allowed exactly this call in this room before.
    remembered: bool = False

    @property
    def unattended(self) -> bool:
        """Tell whether no person started the run."""
        return self.trigger != "member"


@dataclass(frozen=True, slots=True)
class Resolved:
    """The mode of one call, why it asks, and what a question was waived for."""

    mode: ApprovalMode
    why: str = ""
    waived: Waived = Waived.NOT
    second: Second = Second.NOBODY
    # Whether the member may allow exactly this call from now on.
    may_remember: bool = False


def declared_mode(spec: Specification) -> ApprovalMode:
    """Return what stands before a tool's effect by default, from its guard and its effect."""
    if spec.effect is Effect.SENSITIVE:
        return ApprovalMode.ASK_EVERY_TIME
    if spec.guard is Guard.ISOLATED:
        return ApprovalMode.LEASE
    if spec.effect is Effect.READ:
        return ApprovalMode.PASS
    if spec.guard is Guard.MEMBER_STORE:
        return ApprovalMode.WRITE_GUARD
    if spec.family is Family.PACKAGES:
        # A package says what it changes, or says nothing and counts as changing something.
        return ApprovalMode.ASK_FIRST_TIME
    return ApprovalMode.ASK_EVERY_TIME


def approval_mode(spec: Specification, asking: Asking | None = None) -> Resolved:
    """Return who has to be asked about one call of a tool."""
    facts = asking if asking is not None else Asking()
    if facts.unattended and asks_unattended(spec, facts.trigger):
        return _unattended(facts)
    mode, why, waived = _chosen(spec, facts)
    floor = _ASKS_BY_FLOOR.get(facts.policy.floor)
    if floor is not None and _weaker(mode, floor):
        mode, why, waived = floor, "The rules of this deployment ask.", Waived.NOT
    if facts.policy.second is not Second.NOBODY:
        return Resolved(
            ApprovalMode.ASK_EVERY_TIME,
            "The rules of this deployment ask two people.",
            second=facts.policy.second,
        )
    if waived is not Waived.NOT:
        return Resolved(mode, waived=waived)
    if not mode.asks:
        return Resolved(mode)
    may_remember = (
        spec.effect is not Effect.SENSITIVE
        and facts.policy.floor is not Floor.ALWAYS
        and facts.member_mode is not MemberMode.ALWAYS
    )
    if facts.remembered and may_remember:
        return Resolved(mode, waived=Waived.FIRST_USE)
    return Resolved(mode, why, may_remember=may_remember)


def asks_unattended(spec: Specification, trigger: str) -> bool:
    """Tell whether a tool asks in a run that no person started."""
    if spec.needs_approval_when_unattended or spec.uses_connection:
        return True
    return trigger == MAIL and spec.effect is not Effect.READ


def satisfies(given: Second, asked: Second) -> bool:
    """Tell whether a second yes that was given under one rule is enough for another."""
    return _SECONDS[given] >= _SECONDS[asked]


def may_ask(spec: Specification, asking: Asking | None = None) -> bool:
    """Tell whether a call of this tool may need a person's yes, so that nothing previews before."""
    resolved = approval_mode(spec, asking)
    return resolved.mode.asks


def _unattended(facts: Asking) -> Resolved:
    if facts.policy.second is not Second.NOBODY:
        return Resolved(
            ApprovalMode.ASK_EVERY_TIME,
            "No person started this run, and the rules ask two people.",
            second=facts.policy.second,
        )
    if facts.allowed_unattended and facts.policy.floor is Floor.NONE:
        return Resolved(ApprovalMode.ASK_EVERY_TIME, waived=Waived.ALLOWED_UNATTENDED)
    return Resolved(
        ApprovalMode.ASK_EVERY_TIME,
        "No person started this run, and the tool asks in such runs.",
    )


def _chosen(spec: Specification, facts: Asking) -> tuple[ApprovalMode, str, Waived]:
    """Return the mode under the member's choice, with the sentence that says why it asks."""
    declared = declared_mode(spec)
    match facts.member_mode:
        case MemberMode.ALWAYS:
            return (
                ApprovalMode.ASK_EVERY_TIME,
                "You chose to be asked about every call.",
                Waived.NOT,
            )
        case MemberMode.FIRST_USE if spec.effect is Effect.WRITE:
            why = "You chose to be asked the first time that something is changed."
            return ApprovalMode.ASK_FIRST_TIME, why, Waived.NOT
        case MemberMode.NEVER if declared.asks and facts.policy.never_allowed:
            return declared, "", Waived.NEVER_ASK
    if spec.effect is Effect.SENSITIVE:
        return declared, "Sensitive tools ask every time.", Waived.NOT
    if declared is ApprovalMode.ASK_FIRST_TIME:
        why = "Nothing promises that the tool changes nothing, so it asks on first use."
        return declared, why, Waived.NOT
    return declared, "The tool changes something outside, so it asks every time.", Waived.NOT


def _weaker(mode: ApprovalMode, floor: ApprovalMode) -> bool:
    order = (ApprovalMode.ASK_FIRST_TIME, ApprovalMode.ASK_EVERY_TIME)
    return mode not in order or order.index(mode) < order.index(floor)
