"""What do readers ask of automations?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db.models import (
    Case,
    CharField,
    DateTimeField,
    ExpressionWrapper,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.automations.errors import AutomationNotFound
from apps.automations.models import Automation
from apps.domain.policy import GrantState
from apps.domain.tooling.features import Feature


def automations_of(
    member: User, *, trigger: str | None = None, room_id: Any = None, state: str | None = None
) -> QuerySet[Automation]:
    """Return a member's automations: all, or those of one kind, one room or one state."""
    rows: QuerySet[Automation] = Automation.objects.visible_to(member).select_related(
        "agent", "room", "member"
    )
    if trigger is not None:
        rows = rows.filter(trigger=trigger)
    if room_id is not None:
        rows = rows.filter(room_id=room_id)
    return rows if state is None else in_state(rows, state)


def in_state(rows: QuerySet[Automation], state: str) -> QuerySet[Automation]:
    """Keep the automations that stand so by the database's clock."""
    held = Q(revoked_at=None)
    match Automation.State(state):
        case Automation.State.REVOKED:
            return rows.exclude(held)
        case Automation.State.EXPIRED:
            return rows.filter(held, expires_at__lte=Now())
        case Automation.State.PAUSED:
            return rows.filter(held, expires_at__gt=Now(), enabled=False)
        case Automation.State.ACTIVE:
            return rows.filter(held, expires_at__gt=Now(), enabled=True)


def own_automation(*, automation_id: Any, member: User) -> Automation:
    """Return one of a member's automations, or refuse as if it did not exist."""
    found = automations_of(member).filter(pk=automation_id).first()
    if found is None:
        raise AutomationNotFound("You have no such automation.")
    return found


def due_automations(limit: int) -> Iterable[Any]:
    """Ids of scheduled automations whose time has come, the longest due first."""
    return (
        Automation.objects.filter(next_due_at__lte=Now())
        .order_by("next_due_at")
        .values_list("pk", flat=True)[:limit]
    )


def unattended_is_on() -> bool:
    """Say whether this deployment lets anything run that no person started."""
    return Feature.AUTOMATIONS.value not in settings.KAIZEN_FEATURES_OFF


def grant_state() -> Subquery:
    """How the grant behind a run stands, to be read with the run; null where nobody can say.

    A grant of another member, room or trigger says nothing about this run.
    """
    changed = ~Q(revision=OuterRef("automation_revision"))
    over = Q(expires_at__lte=Now()) | Q(run_until__lte=Now())
    state = Case(
        When(revoked_at__isnull=False, then=_word(GrantState.REVOKED)),
        When(over, then=_word(GrantState.EXPIRED)),
        When(enabled=False, then=_word(GrantState.PAUSED)),
        When(changed, then=_word(GrantState.CHANGED)),
        default=_word(GrantState.HELD),
        output_field=CharField(),
    )
    return Subquery(
        Automation.objects.order_by()
        .filter(
            pk=OuterRef("automation_id"),
            member_id=OuterRef("member_id"),
            room_id=OuterRef("room_id"),
            trigger=OuterRef("trigger"),
        )
        .annotate(run_until=ExpressionWrapper(OuterRef("authority_until"), DateTimeField()))
        .annotate(state_now=state)
        .values("state_now")[:1]
    )


def _word(state: GrantState) -> Value:
    return Value(state.value, CharField())
