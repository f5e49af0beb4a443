"""How does a room change? Its roster, its life, and the events that everyone in it sees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone
from psycopg.errors import NotNullViolation
from psycopg.types.json import Jsonb

from apps.accounts.models import User
from apps.accounts.permissions import Permission, give, require, take
from apps.audit.services import Keyed, record
from apps.core.errors import Conflict, Invalid, NotFound
from apps.core.prepared import Last, gathering
from apps.core.wire import Statement, exchange
from apps.rooms import relay
from apps.rooms.models import Participant, Room

MAX_PARTICIPANTS = 200


@dataclass(frozen=True, slots=True)
class Event:
    """One durable fact on its way into a room."""

    room_id: Any
    kind: str
    actor: str
    data: dict[str, Any]


_held_back: ContextVar[list[Event] | None] = ContextVar("events_held_back", default=None)


class RoomClosed(Conflict):
    """The room takes nothing new."""

    code = "room_closed"


@transaction.atomic
def create_room(*, creator: User, name: str) -> Room:
    """Open a room whose creator owns it."""
    room = Room.objects.create(name=_room_name(name), created_by=creator)
    _seat(room, creator, Participant.Role.OWNER)
    record(actor=creator, action="room.created", subject=room)
    publish_event(
        room_id=room.pk,
        kind="participant.joined",
        actor=creator,
        data=_person(creator, Participant.Role.OWNER),
    )
    return room


@transaction.atomic
def invite(*, room_id: Any, inviter: User, username: str) -> Participant:
    """Bring another member into the room. Anyone who takes part may invite."""
    room = lock_open_room(room_id)
    require(inviter, Permission.ROOM_TAKE_PART, room)
    guest = User.objects.filter(username=username, is_active=True).first()
    if guest is None:
        raise NotFound(f"No active member is called {username[:60]!r}.", field="username")
    known = Participant.objects.filter(room=room, user=guest, left_at=None).first()
    if known is not None:
        return known
    if Participant.objects.filter(room=room, left_at=None).count() >= MAX_PARTICIPANTS:
        raise Conflict(f"A room holds at most {MAX_PARTICIPANTS} people.", field="username")
    place = _seat(room, guest, Participant.Role.MEMBER)
    record(actor=inviter, action="room.joined", subject=room, detail={"member": guest.key})
    publish_event(
        room_id=room.pk, kind="participant.joined", actor=inviter, data=_person(guest, place.role)
    )
    return place


@transaction.atomic
def remove_participant(*, room_id: Any, actor: User, username: str) -> None:
    """Take a member out of the room: oneself, or anyone else as its owner."""
    room = Room.objects.select_for_update(no_key=True).filter(pk=room_id).first()
    if room is None:
        raise NotFound("There is no such room.")
    require(actor, Permission.ROOM_TAKE_PART, room)
    if actor.username != username:
        require(actor, Permission.ROOM_MANAGE, room)
    place = (
        Participant.objects.select_related("user")
        .filter(room=room, user__username=username, left_at=None)
        .first()
    )
    if place is None:
        raise NotFound("That member is not in this room.", field="username")
    if place.role == Participant.Role.OWNER:
        raise Conflict("The owner of a room cannot leave it; close the room instead.")
    place.left_at = timezone.now()
    place.save(update_fields=["left_at"])
    take(place.user, Permission.ROOM_TAKE_PART, room)
    take(place.user, Permission.ROOM_MANAGE, room)
    _bump_roster(room)
    record(actor=actor, action="room.left", subject=room, detail={"member": place.user.key})
    publish_event(
        room_id=room.pk,
        kind="participant.left",
        actor=actor,
        data=_person(place.user, place.role),
    )


@transaction.atomic
def close_room(*, room_id: Any, actor: User) -> Room:
    """Close a room for good; it stays readable."""
    room = lock_open_room(room_id)
    require(actor, Permission.ROOM_MANAGE, room)
    room.closed_at = timezone.now()
    room.save(update_fields=["closed_at", "updated_at"])
    record(actor=actor, action="room.closed", subject=room)
    publish_event(room_id=room.pk, kind="room.closed", actor=actor, data={})
    return room


def lock_open_room(room_id: Any) -> Room:
    """Lock a room that still takes something new, or refuse."""
    room = Room.objects.select_for_update(no_key=True).filter(pk=room_id).first()
    if room is None:
        raise NotFound("There is no such room.")
    if room.closed_at is not None:
        raise RoomClosed("This room is closed. It can be read, and nothing new can happen in it.")
    return room


@contextmanager
def room_last(*, gather: bool = False) -> Iterator[None]:
    """Open a transaction in which rooms are locked last: its events are written at its end.

    Everything that happens waits for the room's row, so whoever holds it must wait for nothing
    more. Inside another such block this is a savepoint of it; what raises takes its events along.

    With `gather` the rows that nothing in it reads back (`insert_last`) are written at its end too,
    in the round trip of the events.
    """
    outer = _held_back.get()
    events: list[Event] = []
    rows: list[Last] = []
    with transaction.atomic():
        with ExitStack() as stack:
            token = _held_back.set(events)
            stack.callback(_held_back.reset, token)
            if gather and outer is None:
                rows = stack.enter_context(gathering())
            yield
        if outer is None and (events or rows):
            _append_all(events, rows=rows, then_commit=True)
    if outer is not None:
        outer.extend(events)


def publish_event(*, room_id: Any, kind: str, actor: Keyed | str, data: dict[str, Any]) -> None:
    """Tell everyone in a room a durable fact: now, or at the end of `room_last`."""
    event = Event(room_id, kind, actor if isinstance(actor, str) else actor.key, data)
    held_back = _held_back.get()
    if held_back is None:
        append_events([event])
    else:
        held_back.append(event)


def append_event(*, room_id: Any, kind: str, actor: Keyed | str, data: dict[str, Any]) -> int:
    """Write one durable event now and return its position. Lock nothing more after it."""
    return append_events(
        [Event(room_id, kind, actor if isinstance(actor, str) else actor.key, data)]
    )


def append_events(events: Sequence[Event]) -> int:
    """Write durable events in this order and return the last position. Lock nothing more after it.

    Positions come from the room's own row, which stays locked until commit. A sequence would let
    a reader pass a position whose transaction commits later, and miss that event for good.
    """
    # Position and event become visible together, also where the caller opened no transaction.
    with transaction.atomic(savepoint=False):
        return _append_all(events)


def _append_all(
    events: Sequence[Event], *, rows: Sequence[Last] = (), then_commit: bool = False
) -> int:
    by_room: dict[Any, list[Event]] = {}
    for event in events:
        by_room.setdefault(event.room_id, []).append(event)
    # Rows first: whatever waits for a room waits for as little as can be.
    statements = [row.statement for row in rows]
    statements += [_append(room_id, theirs) for room_id, theirs in by_room.items()]
    try:
        answers = exchange(statements, then_commit=then_commit)
    except IntegrityError as broken:
        # Only a statement of an event fails so for want of a room.
        if not rows and isinstance(broken.__cause__, NotNullViolation):
            raise NotFound("There is no such room.") from broken
        raise
    for row, returned in zip(rows, answers, strict=False):
        row.done(returned)
    last = 0
    for room_id, [(position, revision)] in zip(by_room, answers[len(rows) :], strict=True):
        relay.ring_room(room_id=str(room_id), position=position, roster_revision=revision)
        last = int(position)
    return last


_APPEND = b"""
WITH moved AS (
    UPDATE rooms_room
    SET position = position + $2, updated_at = statement_timestamp()
    WHERE id = $1
    RETURNING id, position, roster_revision
), written AS (
    INSERT INTO rooms_roomevent (room_id, position, kind, actor, data)
    -- Without a room there is no position, and the statement fails before anything is committed.
    SELECT $1, (SELECT position FROM moved) - $2 + event.place, event.kind, event.actor, event.data
    FROM ROWS FROM (
        jsonb_to_recordset($3) AS (kind text, actor text, data jsonb)
    ) WITH ORDINALITY AS event (kind, actor, data, place)
)
SELECT position, roster_revision FROM moved
"""


def _append(room_id: Any, events: Sequence[Event]) -> Statement:
    written = [{"kind": e.kind, "actor": e.actor, "data": e.data} for e in events]
    return Statement(_APPEND, [room_id, len(events), Jsonb(written)])


def _seat(room: Room, user: User, role: str) -> Participant:
    place = Participant.objects.create(room=room, user=user, role=role)
    give(user, Permission.ROOM_TAKE_PART, room)
    if role == Participant.Role.OWNER:
        give(user, Permission.ROOM_MANAGE, room)
    _bump_roster(room)
    return place


def _bump_roster(room: Room) -> None:
    Room.objects.filter(pk=room.pk).update(roster_revision=F("roster_revision") + 1)


def _person(user: User, role: str) -> dict[str, Any]:
    return {"id": user.pk, "username": user.username, "name": user.name, "role": str(role)}


def _room_name(name: str) -> str:
    clean = " ".join(name.split())
    if not clean or len(clean) > 120:
        raise Invalid("A room's name has 1 to 120 characters.", field="name")
    return clean
