"""How does a member grant, change and withdraw an automation? Each change is written down.

A change of what is granted raises the revision, so runs that started before go no further. Whoever
changes it waits until no call that was decided before is still under way to its decision's commit.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may, require
from apps.agents.models import Agent
from apps.audit.services import record
from apps.automations.errors import AutomationNotFound, AutomationRevoked, BadStartToken
from apps.automations.models import Automation
from apps.automations.schedules import read_schedule, read_zone
from apps.core.errors import Conflict, Invalid, NotFound
from apps.rooms.selectors import visible_room
from apps.rooms.services import RoomClosed
from apps.runs.models import Run, RunInput, Seat

MAX_PER_MEMBER = 50
MAX_NAME = 80
MAX_WORDS = 4_000
MAX_DAYS = 90
UNKNOWN_TOKEN = "This token starts no automation."  # noqa: S105
_GRANTED = frozenset({"words", "schedule", "time_zone", "expires_at", "enabled"})


@dataclass(frozen=True, slots=True)
class Granted:
    """An automation, and the token of its webhook, which is shown this once."""

    automation: Automation
    token: str | None


@transaction.atomic
def create_automation(
    *,
    member: User,
    name: str,
    agent_slug: str,
    room_id: Any,
    trigger: str,
    words: str,
    expires_at: datetime,
    schedule: str = "",
    time_zone: str = "UTC",
) -> Granted:
    """Let an agent be asked these words in a room, by a schedule or by whoever holds a token."""
    kind = _trigger(trigger)
    room = visible_room(room_id=room_id, user=member)
    require(member, Permission.ROOM_TAKE_PART, room)
    if room.closed_at is not None:
        raise RoomClosed("This room is closed, so nothing new can start in it.", field="room")
    agent = Agent.objects.visible_to(member).filter(slug=agent_slug, enabled=True).first()
    if agent is None or not Seat.objects.filter(room=room, agent=agent).exists():
        raise NotFound("No agent that you may use has that name in this room.", field="agent")
    # Two at once could each see room for one more, or a name that is free.
    _one_at_a_time(member)
    if Automation.objects.filter(member=member).count() >= MAX_PER_MEMBER:
        raise Conflict(f"You have {MAX_PER_MEMBER} automations. Delete one first.")
    automation = Automation(
        member=member,
        name=_name(name),
        agent=agent,
        room=room,
        trigger=kind,
        words=_words(words),
        schedule=_schedule_text(kind, schedule),
        time_zone=read_zone(time_zone).key,
        expires_at=_expiry(expires_at),
    )
    _demand_free_name(automation)
    automation.next_due_at = _first_due(automation)
    token = _give_token(automation) if kind is Automation.Trigger.WEBHOOK else None
    automation.save(force_insert=True)
    _record("automation.created", automation, actor=member)
    return Granted(automation, token)


@transaction.atomic
def change_automation(
    *, automation_id: Any, member: User, changes: Mapping[str, Any], revision: int | None = None
) -> Automation:
    """Change some fields; whatever changes what is granted raises the revision."""
    if "name" in changes:
        _one_at_a_time(member)
    automation = _locked(automation_id, member)
    if automation.revoked_at is not None:
        raise AutomationRevoked("This automation was revoked. Make a new one in its place.")
    if revision is not None and revision != automation.revision:
        raise Conflict(
            f"Somebody changed it meanwhile: it is now at revision {automation.revision}.",
            field="revision",
        )
    before = {name: getattr(automation, name) for name in _GRANTED | {"name"}}
    if "name" in changes:
        automation.name = _name(changes["name"])
        _demand_free_name(automation)
    if "words" in changes:
        automation.words = _words(changes["words"])
    if "time_zone" in changes:
        automation.time_zone = read_zone(changes["time_zone"]).key
    if "schedule" in changes:
        automation.schedule = _schedule_text(
            Automation.Trigger(automation.trigger), changes["schedule"]
        )
    if "expires_at" in changes:
        automation.expires_at = _expiry(changes["expires_at"])
    if "enabled" in changes:
        automation.enabled = changes["enabled"]
    changed = sorted(name for name, was in before.items() if getattr(automation, name) != was)
    if not changed:
        return automation
    if _GRANTED & set(changed):
        automation.revision += 1
        automation.next_due_at = _first_due(automation)
    automation.save()
    _record("automation.changed", automation, actor=member, changed=changed)
    _wait_for_calls(automation)
    return automation


@transaction.atomic
def revoke_automation(*, automation_id: Any, actor: User) -> Automation:
    """Withdraw a grant for good: the member's own, or anybody's as an administrator's duty.

    No call of its runs passes any more, and what waited for its turn starts no more.
    """
    anybodys = may(actor, Permission.AUTOMATION_REVOKE)
    automation = _locked(automation_id, None if anybodys else actor)
    if automation.revoked_at is not None:
        return automation
    automation.revoked_at = timezone.now()
    automation.revoked_by = actor.key
    automation.revision += 1
    automation.next_due_at = None
    automation.save()
    _record("automation.revoked", automation, actor=actor)
    _wait_for_calls(automation)
    return automation


@transaction.atomic
def rotate_start_token(*, automation_id: Any, member: User) -> Granted:
    """Give a webhook a new token; the one that it had starts nothing any more."""
    automation = _locked(automation_id, member)
    if automation.trigger != Automation.Trigger.WEBHOOK:
        raise Conflict("Only an automation that a webhook starts has a token.")
    if automation.revoked_at is not None:
        raise AutomationRevoked("This automation was revoked. Make a new one in its place.")
    token = _give_token(automation)
    automation.save(update_fields=["token_hash", "updated_at"])
    _record("automation.token_rotated", automation, actor=member)
    return Granted(automation, token)


@transaction.atomic
def delete_automation(*, automation_id: Any, member: User) -> None:
    """Delete an automation; its runs stay, and no call of them passes any more."""
    automation = _locked(automation_id, member)
    _record("automation.deleted", automation, actor=member)
    _wait_for_calls(automation)
    RunInput.objects.filter(automation_id=automation.pk, run=None).delete()
    automation.delete()


def automation_of_token(*, automation_id: UUID, token: str) -> Automation:
    """Return the automation that a token starts, found by the token's hash."""
    found: Automation | None = (
        Automation.objects.select_related("member", "agent", "room")
        .filter(pk=automation_id, trigger=Automation.Trigger.WEBHOOK, token_hash=_hash(token))
        .first()
    )
    if found is None:
        raise BadStartToken(UNKNOWN_TOKEN)
    return found


def _one_at_a_time(member: User) -> None:
    User.objects.select_for_update(no_key=True).values_list("pk").get(pk=member.pk)


def _locked(automation_id: Any, member: User | None) -> Automation:
    rows = Automation.objects.select_for_update(no_key=True, of=("self",)).select_related(
        "agent", "room", "member"
    )
    if member is not None:
        rows = rows.filter(member=member)
    found: Automation | None = rows.filter(pk=automation_id).first()
    if found is None:
        raise AutomationNotFound("There is no such automation.")
    return found


def _wait_for_calls(automation: Automation) -> None:
    """Wait for the calls that are being decided under what held before.

    A call is decided with its run locked. Whoever takes that lock after this commits reads the
    grant as it is then; whoever had it before has committed when this goes on.
    """
    runs = Run.objects.filter(automation_id=automation.pk).exclude(state=Run.State.FINISHED)
    list(runs.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))


def _trigger(trigger: str) -> Automation.Trigger:
    if trigger in Automation.Trigger.values:
        return Automation.Trigger(trigger)
    words = " or ".join(Automation.Trigger.values)
    if trigger in Run.Trigger.values:
        message = f"Kaizen starts no run by {trigger!r} yet: an automation's trigger is {words}."
    else:
        message = f"There is no trigger of that name: it is {words}."
    raise Invalid(message, field="trigger")


def _name(name: str) -> str:
    clean = " ".join(name.split())
    if not clean or len(clean) > MAX_NAME or not clean.isprintable():
        raise Invalid(
            f"An automation's name has 1 to {MAX_NAME} printable characters.", field="name"
        )
    return clean


def _words(words: str) -> str:
    if not words.strip() or len(words) > MAX_WORDS or "\x00" in words:
        raise Invalid(
            f"The words have 1 to {MAX_WORDS:,} characters that are not all space, and no NUL.",
            field="words",
        )
    return words


def _expiry(expires_at: datetime) -> datetime:
    now = timezone.now()
    if now < expires_at <= now + timedelta(days=MAX_DAYS):
        return expires_at
    raise Invalid(
        f"An automation ends at a moment ahead, at most {MAX_DAYS} days from now.",
        field="expires_at",
    )


def _schedule_text(trigger: Automation.Trigger, schedule: str) -> str:
    clean = " ".join(schedule.split())
    if trigger is Automation.Trigger.SCHEDULE and not clean:
        raise Invalid("This automation needs a schedule.", field="schedule")
    if trigger is not Automation.Trigger.SCHEDULE and clean:
        raise Invalid("Only an automation that a schedule starts has one.", field="schedule")
    return clean


def _demand_free_name(automation: Automation) -> None:
    others = Automation.objects.filter(member_id=automation.member_id, name=automation.name)
    if others.exclude(pk=automation.pk).exists():
        raise Conflict(f"You have an automation called {automation.name!r}.", field="name")


def _first_due(automation: Automation) -> datetime | None:
    """Return when a schedule comes next; refuse one that comes only after its end."""
    if automation.trigger != Automation.Trigger.SCHEDULE or not automation.enabled:
        return None
    due = read_schedule(automation.schedule, automation.time_zone).after(timezone.now())
    if due is None or due >= automation.expires_at:
        raise Invalid("This schedule does not come before the automation ends.", field="schedule")
    return due


def _give_token(automation: Automation) -> str:
    token = secrets.token_urlsafe(32)
    automation.token_hash = _hash(token)
    return token


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _record(action: str, automation: Automation, *, actor: User, **more: Any) -> None:
    record(
        actor=actor,
        action=action,
        subject=automation,
        detail={
            "trigger": automation.trigger,
            "revision": automation.revision,
            "agent": automation.agent.slug,
            "room": str(automation.room_id),
            "expires_at": automation.expires_at.isoformat(),
            **more,
        },
    )
