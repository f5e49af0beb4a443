"""What does a decision rest on? Facts that were read now, and nothing else.

A fact that nobody could establish is `None`, and an unknown is always a refusal. A fact that is
added later has a default under which nothing more is allowed than before.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from apps.domain.policy.modes import Asking, Second
from apps.domain.policy.tree import PolicyTree
from apps.domain.tooling.words import Capability


class ReceiptState(StrEnum):
    """What became of the question that this exact call was asked about."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    SPENT = "spent"
    FOREIGN = "foreign"


class GrantState(StrEnum):
    """How the standing grant behind a run stands, where no person started it."""

    NOT_NEEDED = "not_needed"
    HELD = "held"
    REVOKED = "revoked"
    EXPIRED = "expired"
    PAUSED = "paused"
    CHANGED = "changed"
    NOT_READY = "not_ready"


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A list of names that somebody kept, or no list at all; it only ever takes away."""

    names: frozenset[str] | None = None

    def holds(self, name: str) -> bool:
        """Tell whether a name is left."""
        return self.names is None or name in self.names

    def narrowed(self, other: "Narrowing") -> "Narrowing":
        """Return what both hold."""
        if self.names is None or other.names is None:
            return other if self.names is None else self
        return Narrowing(self.names & other.names)


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
    # A member who asks needs no grant; whatever else started a run does, and now.
    grant: GrantState | None = GrantState.NOT_NEEDED
    # What is said of a tool that is not enabled, where there is more to say than that it is off.
    tool_hindrance: str = ""
    policy_tree: PolicyTree | None = field(default_factory=PolicyTree)
    # What this run was narrowed to when it began: by its parent, and by the member's choice then.
    run_ceiling: Narrowing | None = field(default_factory=Narrowing)
    run_selection: Narrowing | None = field(default_factory=Narrowing)
    # What the member keeps of this agent's tools in this room now.
    member_choice: Narrowing | None = field(default_factory=Narrowing)
    # What the member wants, what the rules ask for, and what was allowed before.
    asking: Asking | None = field(default_factory=Asking)
    approval: ReceiptState | None = None
    # Under which rule somebody gave the second yes that this call's receipt holds.
    seconded: Second = Second.NOBODY
    # The id of an earlier identical write of this turn that succeeded and was answered.
    repeat_of: str | None = None
    # The reason why exactly this call just failed, where nothing has succeeded since.
    same_failure: str | None = None
    # Where the tool uses a connection: whether there is one that it may use for the member.
    connected: bool | None = None
    # The tool has failed too many different requests of this turn.
    cut_off: bool | None = False
