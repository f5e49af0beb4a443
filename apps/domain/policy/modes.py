"""What stands between a permitted call and its effect?"""

from enum import StrEnum

from apps.domain.tooling.specification import Specification
from apps.domain.tooling.words import Effect, Guard


class ApprovalMode(StrEnum):
    """What stands between a permitted call and its effect."""

    PASS = "pass"  # noqa: S105 - a mode, not a password
    WRITE_GUARD = "write_guard"
    LEASE = "lease"
    ASK_EVERY_TIME = "ask_every_time"


def approval_mode(spec: Specification) -> ApprovalMode:
    """Return what stands before a tool's effect by default, from its guard and its effect."""
    if spec.effect is Effect.SENSITIVE:
        return ApprovalMode.ASK_EVERY_TIME
    if spec.guard is Guard.ISOLATED:
        return ApprovalMode.LEASE
    if spec.effect is Effect.READ:
        return ApprovalMode.PASS
    if spec.guard is Guard.MEMBER_STORE:
        return ApprovalMode.WRITE_GUARD
    return ApprovalMode.ASK_EVERY_TIME


def may_ask(spec: Specification) -> bool:
    """Tell whether a call of this tool may need a person's yes, so that nothing previews before."""
    return approval_mode(spec) is ApprovalMode.ASK_EVERY_TIME
