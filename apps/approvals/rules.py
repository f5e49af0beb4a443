"""How do administrators change what is asked? Each change is written down, and holds at once."""

from __future__ import annotations

from django.db import transaction

from apps.accounts.models import User
from apps.approvals.models import ApprovalRule, UnattendedAllowance
from apps.audit.services import record


@transaction.atomic
def set_rule(*, rule: ApprovalRule, actor: User) -> None:
    """Keep a rule, new or changed; it counts from the next call on."""
    rule.save()
    record(
        actor=actor,
        action="approval_rule.set",
        subject=rule,
        detail={
            "node": str(rule),
            "least": rule.floor,
            "never_allowed": str(rule.never_allowed),
            "second": rule.second,
            "second_for": rule.second_for,
            "expires_after_s": str(rule.expires_after_s or ""),
        },
    )


@transaction.atomic
def drop_rule(*, rule: ApprovalRule, actor: User) -> None:
    """Let a rule count no longer."""
    record(actor=actor, action="approval_rule.dropped", subject=rule, detail={"node": str(rule)})
    rule.delete()


@transaction.atomic
def allow_unattended(*, allowance: UnattendedAllowance, actor: User) -> None:
    """Let a named trigger use a tool in its own runs without a person's yes."""
    allowance.save()
    _note(allowance, actor, "unattended.allowed")


@transaction.atomic
def forbid_unattended(*, allowance: UnattendedAllowance, actor: User) -> None:
    """Ask a person again."""
    _note(allowance, actor, "unattended.forbidden")
    allowance.delete()


def _note(allowance: UnattendedAllowance, actor: User, action: str) -> None:
    record(
        actor=actor,
        action=action,
        subject=allowance,
        detail={
            "trigger": allowance.trigger,
            "name": allowance.named,
            "automation": str(allowance.automation_id or ""),
            "tool": allowance.tool,
        },
    )
