"""How does a run live? Seats, starting, parking, waking, settling and finishing.

Starting and waking change row state and ring a task by its registered name, so nothing here
imports the engine that runs the turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Max, UUIDField
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.agents.models import Agent
from apps.audit.services import record
from apps.core.correlation import current_correlation_id
from apps.core.errors import Conflict, NotFound
from apps.core.metrics import RUNS, count
from apps.core.prepared import Change, Given, given_fields, insert, insert_last
from apps.core.queue import ring
from apps.domain.tooling import CallState, Outcome
from apps.rooms.services import lock_open_room, publish_event
from apps.runs.bodies import pack
from apps.runs.causes import Cause, cause_told, inherited, why_not_begin, within
from apps.runs.errors import AlreadySettled
from apps.runs.models import Call, JournalEntry, Run, RunInput, Seat
from apps.runs.routing import Routed, input_body, policy_of

TURN_TASK = "turns.run_turn"
START_TASK = "runs.start_waiting"
CHILD_TASK = "boundary.settle_child"
RUN_BUDGET = timedelta(days=30)
MAX_WAITING_INPUTS = 20


@dataclass(frozen=True, slots=True)
class Started:
    """What became of an input: the run it started, or its place behind or in the active one."""

    run: Run | None
    queued: bool
    steers: bool = False
    # How many come first, itself included, while it waits.
    place: int = 0


def actor_of(agent: Agent) -> str:
    """Name an agent in room events."""
    return f"agent:{agent.slug}"


@transaction.atomic
def add_seat(*, room_id: Any, member: User, agent_slug: str) -> Seat:
    """Give an agent that the member may use a place in a room that the member takes part in."""
    room = lock_open_room(room_id)
    require(member, Permission.ROOM_TAKE_PART, room)
    agent = Agent.objects.visible_to(member).filter(slug=agent_slug, enabled=True).first()
    if agent is None:
        raise NotFound("No agent that you may use has that name.", field="agent")
    seat, made = Seat.objects.get_or_create(room=room, agent=agent, defaults={"added_by": member})
    if made:
        record(actor=member, action="room.seat_added", subject=room, detail={"agent": agent.slug})
        publish_event(
            room_id=room.pk,
            kind="seat.added",
            actor=member,
            data={"slug": agent.slug, "name": agent.name},
        )
    return seat


@transaction.atomic
def remove_seat(*, room_id: Any, member: User, agent_slug: str) -> None:
    """Take an agent's place away; a run that is active goes on to its end."""
    seat = lock_seat(room_id=room_id, agent_slug=agent_slug)
    room = lock_open_room(room_id)
    require(member, Permission.ROOM_TAKE_PART, room)
    if seat is None:
        raise NotFound("That agent has no place in this room.", field="agent")
    RunInput.objects.filter(room=room, agent=seat.agent, run=None).delete()
    seat.delete()
    record(actor=member, action="room.seat_removed", subject=room, detail={"agent": agent_slug})
    publish_event(
        room_id=room.pk,
        kind="seat.removed",
        actor=member,
        data={"slug": agent_slug, "name": seat.agent.name},
    )


def lock_seat(*, room_id: Any, agent_slug: str) -> Seat | None:
    """Lock an agent's place in a room: after a run, before the room."""
    return (
        Seat.objects.select_for_update(no_key=True, of=("self",))
        .select_related("agent")
        .filter(room_id=room_id, agent__slug=agent_slug)
        .first()
    )


@transaction.atomic
def start_run(
    *,
    seat: Seat,
    member: User,
    text: str,
    position: int,
    steer: bool = False,
    routed: Routed | None = None,
    cause: Cause | None = None,
    outside: str = "",
) -> Started:
    """Let an agent answer an input: at once, or after its active run in this room.

    A member may steer the agent's active run with it, if that works for them: the run takes it in
    at its next step. Where it ends before that, the input starts the next run like any other.
    What no person starts names its cause; what came along from outside stays apart from the words.

    The seat is locked by the caller (`lock_seat`), before any event locked the room.
    """
    waiting = RunInput.objects.filter(room_id=seat.room_id, agent=seat.agent, run=None).count()
    if waiting >= MAX_WAITING_INPUTS:
        raise Conflict(
            f"{seat.agent.name} already has {waiting} messages waiting. Stop its run or wait."
        )
    active = active_run(room_id=seat.room_id, agent_id=seat.agent_id)
    steers = steer and active is not None and active.member_id == member.pk
    RunInput.objects.create(
        room_id=seat.room_id,
        agent=seat.agent,
        member=member,
        text=text,
        outside=outside,
        position=position,
        steer=steers,
        routed={} if routed is None else routed.as_dict(),
        correlation_id=current_correlation_id(),
        **({} if cause is None else cause.fields),
    )
    run = None if active is not None else _start_next(room_id=seat.room_id, agent=seat.agent)
    if run is not None and waiting:
        # The oldest came first, which was another one, so this is one place further.
        return Started(run=None, queued=True, place=waiting)
    queued = run is None
    return Started(run=run, queued=queued, steers=steers, place=waiting + 1 if queued else 0)


def active_run(*, room_id: Any, agent_id: Any) -> Run | None:
    """Return the run that holds an agent's seat in a room, if one does."""
    return (
        Run.objects.filter(
            room_id=room_id, agent_id=agent_id, runtime=Run.Runtime.KAIZEN, parent=None
        )
        .exclude(state=Run.State.FINISHED)
        .only("pk", "member_id", "state")
        .first()
    )


@transaction.atomic
def start_waiting(*, input_id: Any) -> None:
    """Start the run of the oldest input that waits behind a run which has ended."""
    waiting = RunInput.objects.select_related("agent").filter(pk=input_id, run=None).first()
    if waiting is None:
        return
    seat = lock_seat(room_id=waiting.room_id, agent_slug=waiting.agent.slug)
    if seat is not None:
        _start_next(room_id=seat.room_id, agent=seat.agent)


def _start_next(*, room_id: Any, agent: Agent) -> Run | None:
    """Turn the oldest waiting input into a run, unless one is active. The seat row is locked."""
    if active_run(room_id=room_id, agent_id=agent.pk) is not None:
        return None
    waiting = (
        RunInput.objects.select_related("member")
        .filter(room_id=room_id, agent=agent, run=None)
        .first()
    )
    if waiting is None:
        return None
    run = Run.objects.create(
        room_id=room_id,
        agent=agent,
        member=waiting.member,
        policy=policy_of(waiting),
        deadline_at=within(waiting, timezone.now() + RUN_BUDGET),
        correlation_id=waiting.correlation_id,
        **inherited(waiting),
    )
    waiting.run = run
    waiting.save(update_fields=["run"])
    append_journal(run=run, kind=JournalEntry.Kind.INPUT, body=input_body(waiting))
    why_not = why_not_begin(waiting, run)
    routed = {"routed": waiting.routed} if waiting.routed else {}
    record(
        actor=waiting.member,
        action="run.started",
        subject=run,
        detail={"agent": agent.slug, **routed, **cause_told(run)},
    )
    publish_event(
        room_id=room_id,
        kind="run.started",
        actor=waiting.member,
        data={"run": str(run.pk), "agent": agent_card(agent), "member": member_card(run.member)},
    )
    if why_not:
        # A row all the same: everybody in the room sees that it was due, and why it did not begin.
        finish_run(run=run, outcome=Run.Outcome.FAILED, explanation=why_not)
    else:
        ring(TURN_TASK, run_id=str(run.pk))
    return run


def append_journal(*, run: Run, kind: str, body: Any) -> JournalEntry:
    """Write the next step of a run's truth. The run's row is locked, or new and unseen."""
    last = JournalEntry.objects.filter(run=run).aggregate(last=Max("sequence"))["last"]
    inline, digest = pack(body)
    return JournalEntry.objects.create(
        run=run, sequence=(last or 0) + 1, kind=kind, body=inline, blob_digest=digest
    )


def park_run(*, run: Run) -> None:
    """Put a run to sleep until a call settles. The run's row is locked by its fence."""
    run.state = Run.State.PARKED
    run.breaks = 0
    run.claimed_by = ""
    run.claim_expires_at = None
    run.save(update_fields=["state", "breaks", "claimed_by", "claim_expires_at", "updated_at"])
    publish_event(
        room_id=run.room_id,
        kind="run.parked",
        actor=actor_of(run.agent),
        data={"run": str(run.pk)},
    )


def wake(*, run: Run) -> None:
    """Let a parked run go on once nothing that it waits for is open. Its row is locked."""
    if run.state != Run.State.PARKED:
        return
    under_way = (CallState.WAITING.value, CallState.DISPATCHED.value)
    if Call.objects.filter(run=run, state__in=under_way).exists():
        return
    run.state = Run.State.QUEUED
    run.save(update_fields=["state", "updated_at"])
    publish_event(
        room_id=run.room_id,
        kind="run.resumed",
        actor=actor_of(run.agent),
        data={"run": str(run.pk)},
    )
    ring(TURN_TASK, run_id=str(run.pk))


def keep_call(call: Call, *changed: str) -> None:
    """Write a drafted call down as it stands, or what changed of one that is written already.

    The run's row is locked by the caller. What nobody could see in between is not written: a call
    that settles in the transaction which drafted it is one row, written once.
    """
    if call._state.adding:
        insert(call)
    elif changed:
        call.save(update_fields=[*changed, "updated_at"])


def settle_call(
    *,
    run: Run,
    call: Call,
    outcome: Outcome,
    reason: str = "",
    rule: str = "",
    projection: dict[str, Any] | None = None,
    domain: str = "",
    non_substitutable: bool = False,
    images: Sequence[Mapping[str, Any]] = (),
) -> Call:
    """Give a call its one outcome, and say whose failure it was. The run's row is locked.

    The conditional update is the law: whoever comes second is told `AlreadySettled`. A drafted
    call has no second: its row comes to be with its outcome.
    """
    inline, digest = pack(projection)
    now = timezone.now()
    changes: dict[str, Any] = {
        "state": CallState.SETTLED.value,
        "outcome": outcome.value,
        "reason": reason,
        "rule": rule or call.rule,
        "domain": domain,
        "non_substitutable": non_substitutable,
        "projection": inline,
        "projection_blob": digest,
        "images": list(images),
        "settled_at": now,
        "executor": "",
        "executor_expires_at": None,
        "updated_at": now,
    }
    drafted = call._state.adding
    if not drafted and not _SETTLE.run(call=call.pk, **changes):
        raise AlreadySettled("This call already has its outcome.")
    for field, value in changes.items():
        setattr(call, field, value)
    if drafted:
        insert_last(call)
    return call


_SETTLED = (
    "state", "outcome", "reason", "rule", "domain", "non_substitutable", "projection",
    "projection_blob", "images", "settled_at", "executor", "executor_expires_at", "updated_at",
)  # fmt: skip
_SETTLE = Change(
    lambda: (
        Call.objects.order_by()
        .filter(pk=Given("call", UUIDField()))
        .exclude(state=CallState.SETTLED.value)
    ),
    given_fields(Call, *_SETTLED),
)


def finish_run(*, run: Run, outcome: str, explanation: str = "") -> None:
    """End a run, tell the room, and ring for the next waiting input. The run's row is locked."""
    run.state = Run.State.FINISHED
    run.outcome = outcome
    run.explanation = explanation[:500]
    run.finished_at = timezone.now()
    run.claimed_by = ""
    run.claim_expires_at = None
    run.retry_at = None
    run.token_hash = ""
    run.save()
    record(
        actor=run.member,
        action="run.finished",
        subject=run,
        outcome=outcome,
        detail={"agent": run.agent.slug},
    )
    publish_event(
        room_id=run.room_id,
        kind="run.finished",
        actor=actor_of(run.agent),
        data={
            "run": str(run.pk),
            "agent": agent_card(run.agent),
            "member": member_card(run.member),
            "outcome": outcome,
            "explanation": run.explanation,
        },
    )
    count(RUNS, outcome=outcome)
    if run.parent_call_id is not None:
        # Not here either: the parent is locked before its child.
        ring(CHILD_TASK, call_id=str(run.parent_call_id))
        return
    waiting = RunInput.objects.filter(room_id=run.room_id, agent_id=run.agent_id, run=None).first()
    if waiting is not None:
        # Not here: the seat is locked before the room, and this transaction has locked the room.
        ring(START_TASK, input_id=str(waiting.pk))


def agent_card(agent: Agent) -> dict[str, Any]:
    """What a room shows of an agent."""
    return {"slug": agent.slug, "name": agent.name}


def member_card(member: User) -> dict[str, Any]:
    """What a room shows of a member."""
    return {"id": member.pk, "username": member.username, "name": member.name}
