"""How does an automation start a run, and why not? One way for schedules and webhooks.

Everything that could have been withdrawn is read at the start, and again when a start that had to
wait gets its turn. What may not start says why: in the trail, and to its member.

Lock order: seat, automation, room.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.permissions import Permission, may
from apps.agents.models import Agent
from apps.audit.services import SYSTEM, record
from apps.automations.errors import NotStarted
from apps.automations.models import Automation
from apps.automations.schedules import read_schedule
from apps.automations.selectors import unattended_is_on
from apps.core.errors import Conflict
from apps.domain.tooling import Capability
from apps.rooms.services import RoomClosed, append_event, lock_open_room
from apps.runs.causes import Cause
from apps.runs.models import Run, RunInput, Seat
from apps.runs.services import Started, lock_seat, member_card, start_run
from apps.sandbox.client import available

START_TASK = "automations.start_due"
SANDBOX_PATIENCE = 2.0
# Of the places in an agent's line: some for one webhook, and others always left to people.
MAX_WAITING_OF_ONE = 3
MAX_WAITING_OF_ALL = 10
_CONFINED = frozenset({Capability.CODE_RUN.value, Capability.PACKAGES_CALL.value})


@transaction.atomic
def start_due(*, automation_id: Any) -> Started | None:
    """Start a scheduled automation whose time has come: once, however often one looks.

    The next time is set with the start, and it lies ahead: what was missed is started once.
    """
    seen = Automation.objects.select_related("agent").filter(pk=automation_id).first()
    if seen is None:
        return None
    seat = lock_seat(room_id=seen.room_id, agent_slug=seen.agent.slug)
    due = (
        Automation.objects.select_for_update(no_key=True, of=("self",), skip_locked=True)
        .select_related("agent", "room", "member")
        .filter(pk=automation_id, next_due_at__lte=Now())
        .first()
    )
    if due is None:
        return None
    due.next_due_at = _following(due)
    due.save(update_fields=["next_due_at", "updated_at"])
    try:
        # A savepoint of its own: that the time has passed stands, also where nothing starts.
        with transaction.atomic():
            return _start(due, seat, outside="")
    except NotStarted as refusal:
        _note_refusal(due, refusal)
        return None


@transaction.atomic
def start_by_webhook(*, automation: Automation, outside: str) -> Started:
    """Start an automation whose token somebody holds, with what they sent as data."""
    seat = lock_seat(room_id=automation.room_id, agent_slug=automation.agent.slug)
    locked = (
        Automation.objects.select_for_update(no_key=True, of=("self",))
        .select_related("agent", "room", "member")
        .filter(pk=automation.pk, trigger=Automation.Trigger.WEBHOOK)
        .first()
    )
    if locked is None:
        raise NotStarted("automation_is_there", "This automation was deleted.")
    return _start(locked, seat, outside=outside)


@transaction.atomic
def note_refusal(*, automation: Automation, refusal: NotStarted) -> None:
    """Write down that a start was refused, for a caller whose own transaction is undone."""
    _note_refusal(automation, refusal)


def may_begin(waiting: RunInput, run: Run) -> str:
    """Say why a start whose turn has come may not begin any more, or nothing. The seat is locked.

    It is what a run asks before it begins, at once or after the run before it.
    """
    if waiting.automation_id is None:
        return "Nobody can say on whose authority this run would start."
    automation = (
        Automation.objects.select_related("agent", "room", "member")
        .filter(pk=waiting.automation_id, member=waiting.member_id, room=waiting.room_id)
        .first()
    )
    if automation is None:
        return "The automation behind this run was deleted."
    seat = Seat.objects.filter(room_id=waiting.room_id, agent_id=waiting.agent_id).first()
    refusal = _refusal(automation, seat)
    if refusal is None and automation.revision != waiting.automation_revision:
        refusal = NotStarted("automation_is_unchanged", "The automation has changed since.")
    if refusal is not None:
        _note_refusal(automation, refusal, run=run)
        return refusal.message
    _note(automation, Automation.Result.STARTED, run=run)
    return ""


def _start(automation: Automation, seat: Seat | None, *, outside: str) -> Started:
    """Ask the agent in the automation's room. Seat and automation are locked."""
    refusal = _refusal(automation, seat)
    if refusal is not None or seat is None:
        raise refusal or _no_seat()
    _demand_short_line(automation)
    try:
        # The last lock of all: whoever closed the room since it was looked at has committed.
        lock_open_room(automation.room_id)
    except RoomClosed as closed:
        raise _closed() from closed
    member = automation.member
    position = append_event(
        room_id=automation.room_id,
        kind="message.posted",
        actor=member,
        data={
            "author": {"kind": "user", **member_card(member)},
            "text": automation.words,
            "automation": {"name": automation.name, "trigger": automation.trigger},
            "outside_characters": len(outside),
        },
    )
    try:
        started = start_run(
            seat=seat,
            member=member,
            text=automation.words,
            position=position,
            outside=outside,
            cause=Cause(
                trigger=automation.trigger,
                automation_id=automation.pk,
                revision=automation.revision,
                until=automation.expires_at,
            ),
        )
    except NotStarted:
        raise
    except Conflict as full:
        raise NotStarted("seat_has_room", full.message) from full
    if started.queued:
        _note(automation, Automation.Result.QUEUED, run=None)
    record(
        actor=SYSTEM,
        action="automation.started",
        subject=automation,
        outcome=Automation.Result.QUEUED if started.queued else Automation.Result.STARTED,
        detail={
            "trigger": automation.trigger,
            "revision": automation.revision,
            "run": "" if started.run is None else str(started.run.pk),
            "outside_characters": len(outside),
        },
    )
    return started


def _refusal(automation: Automation, seat: Seat | None) -> NotStarted | None:
    """Return the first rule that keeps an automation from starting, as things stand now."""
    agent, room, member = automation.agent, automation.room, automation.member
    state = automation.state
    if not unattended_is_on():
        return NotStarted("automations_are_on", "Automations are switched off in this deployment.")
    if state is not Automation.State.ACTIVE:
        return NotStarted("automation_is_active", f"The automation is {state.label.lower()}.")
    if not member.is_active:
        return NotStarted("member_is_active", "The member's account is closed.")
    if room.closed_at is not None:
        return _closed()
    if not may(member, Permission.ROOM_TAKE_PART, room):
        return NotStarted("member_takes_part", "The member does not take part in the room.")
    if not agent.enabled:
        return NotStarted("agent_is_enabled", f"{agent.name} is switched off.")
    if not Agent.objects.visible_to(member).filter(pk=agent.pk).exists():
        return NotStarted("agent_is_usable", f"The member may not use {agent.name} any more.")
    if seat is None:
        return _no_seat()
    if _CONFINED & set(agent.ceiling) and not available(patience=SANDBOX_PATIENCE).ok:
        return NotStarted(
            "tools_are_ready",
            "Tools that run confined are not ready, and nobody would be there to see it.",
        )
    return None


def _no_seat() -> NotStarted:
    return NotStarted("agent_has_a_seat", "The agent has no place in the room any more.")


def _closed() -> NotStarted:
    return NotStarted("room_is_open", "The room is closed.")


def _demand_short_line(automation: Automation) -> None:
    """Let starts pile up only so far behind a run that takes longer than they come.

    A schedule's next start brings nothing that the one before did not; a webhook's bring what was
    sent. People wait in the same line, so the starts of all automations leave places to them.
    """
    waiting = list(
        RunInput.objects.filter(
            room_id=automation.room_id,
            agent_id=automation.agent_id,
            automation_id__isnull=False,
            run=None,
        ).values_list("automation_id", flat=True)
    )
    own = waiting.count(automation.pk)
    if own and automation.trigger == Automation.Trigger.SCHEDULE:
        raise NotStarted("earlier_start_waits", "The start before this one still waits its turn.")
    name = automation.agent.name
    next_step = f"Send this one again once {name} has begun one of them, or stop its run."
    if own >= MAX_WAITING_OF_ONE:
        message = f"{own} starts of this automation wait for {name} already. {next_step}"
        raise NotStarted("earlier_start_waits", message)
    if len(waiting) >= MAX_WAITING_OF_ALL:
        message = f"{len(waiting)} starts of automations wait for {name} already. {next_step}"
        raise NotStarted("seat_has_room", message)


def _following(automation: Automation) -> Any:
    """Return when it is due after now; never again where that lies behind its end."""
    following = read_schedule(automation.schedule, automation.time_zone).after(timezone.now())
    if following is None or following >= automation.expires_at:
        return None
    return following


def _note_refusal(automation: Automation, refusal: NotStarted, run: Run | None = None) -> None:
    _note(automation, Automation.Result.REFUSED, run=run, why=refusal.message)
    record(
        actor=SYSTEM,
        action="automation.refused",
        subject=automation,
        outcome=refusal.rule,
        detail={
            "trigger": automation.trigger,
            "revision": automation.revision,
            "run": "" if run is None else str(run.pk),
        },
    )


def _note(
    automation: Automation, result: Automation.Result, *, run: Run | None, why: str = ""
) -> None:
    """Keep how the last start went."""
    Automation.objects.filter(pk=automation.pk).update(
        last_tried_at=Now(),
        last_result=result,
        last_explanation=why[:300],
        last_run=None if run is None else run.pk,
        updated_at=Now(),
    )
