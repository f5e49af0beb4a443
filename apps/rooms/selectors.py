"""What do readers ask of rooms?"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from django.db import connection

from apps.accounts.models import User
from apps.accounts.permissions import Permission, holders
from apps.core.errors import NotFound
from apps.rooms.models import Participant, Room, RoomEvent

_NEW_EVENTS = """
    SELECT event.position, event.kind, event.actor, event.at, event.data, room.roster_revision
    FROM rooms_roomevent AS event JOIN rooms_room AS room ON room.id = event.room_id
    WHERE event.room_id = %s AND event.position > %s
    ORDER BY event.position LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a room has come: the position of its last event and the revision of its roster."""

    position: int
    revision: int


@dataclass(frozen=True, slots=True)
class NewEvents:
    """Events in order, and the roster revision that held when they were read."""

    events: list[dict[str, Any]]
    revision: int | None


def visible_room(*, room_id: Any, user: User) -> Room:
    """Return a room that the member takes part in, or refuse as if it did not exist."""
    room: Room | None = Room.objects.visible_to(user).filter(pk=room_id).first()
    if room is None:
        raise NotFound("There is no such room.")
    return room


def event_view(event: RoomEvent) -> dict[str, Any]:
    """Show an event as sockets and the API send it."""
    return _view(event.position, event.kind, event.actor, event.at, event.data)


def events_after(*, room_id: Any, position: int, limit: int) -> list[dict[str, Any]]:
    """Return the next events behind a position, in order."""
    return new_events(room_id=room_id, position=position, limit=limit).events


def new_events(*, room_id: Any, position: int, limit: int) -> NewEvents:
    """Return the next events and, from the same statement, the revision of the roster.

    One statement sees one moment: a removal that committed before any of these events shows in the
    revision, so nobody can be handed an event that follows their removal.
    """
    # Written out: every event of every watched room passes here, and building the query with the
    # ORM costs more than running it.
    with connection.cursor() as cursor:
        cursor.execute(_NEW_EVENTS, [room_id, position, limit])
        rows = cursor.fetchall()
    events = [
        _view(place, kind, actor, at, json.loads(data)) for place, kind, actor, at, data, _ in rows
    ]
    return NewEvents(events, rows[-1][5] if rows else None)


def last_events(*, room_id: Any, position: int, limit: int) -> list[dict[str, Any]]:
    """Return the last events up to a position, oldest first."""
    rows = (
        RoomEvent.objects.filter(room_id=room_id, position__lte=position)
        .order_by("-position")
        .values_list("position", "kind", "actor", "at", "data")[:limit]
    )
    return [_view(*row) for row in reversed(rows)]


def room_marks(room_ids: Iterable[str]) -> dict[str, Mark]:
    """Return how far each of these rooms has come, in one query."""
    rows = Room.objects.filter(pk__in=list(room_ids)).values_list(
        "pk", "position", "roster_revision"
    )
    return {str(pk): Mark(position, revision) for pk, position, revision in rows}


def participants_among(*, room_id: Any, user_ids: Collection[int]) -> set[int]:
    """Keep those of these members who take part in the room now."""
    return holders(Permission.ROOM_TAKE_PART, Room(pk=room_id), user_ids)


def roster_of(room_id: Any) -> list[Participant]:
    """Return everyone who is in the room, in the order of their arrival, with their accounts."""
    return list(
        Participant.objects.filter(room_id=room_id, left_at=None)
        .select_related("user")
        .order_by("joined_at", "pk")
    )


def _view(position: int, kind: str, actor: str, at: Any, data: Any) -> dict[str, Any]:
    return {
        "type": "event",
        "position": position,
        "kind": kind,
        "actor": actor,
        "at": at.isoformat(),
        "data": data,
    }
