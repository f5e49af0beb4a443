"""How does a member narrow what an agent may use for them in one room?"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.audit.services import record
from apps.domain.words import shown
from apps.grants.errors import BadChoice, NoSuchSeat
from apps.grants.models import ToolChoice
from apps.rooms.selectors import visible_room
from apps.runs.models import Seat

MAX_CHOSEN = 200

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@transaction.atomic
def choose_tools(
    *, room_id: Any, agent_slug: str, member: User, tools: Collection[str]
) -> ToolChoice:
    """Keep only these tools of an agent in a room, for this member's runs, from the next call on.

    A choice takes away and never gives: a name that the agent does not have does nothing.
    """
    seat = seat_of(room_id=room_id, agent_slug=agent_slug, member=member)
    names = sorted(set(tools))
    if len(names) > MAX_CHOSEN:
        raise BadChoice(f"A choice names at most {MAX_CHOSEN} tools.", field="tools")
    for name in names:
        if not _NAME.fullmatch(name):
            raise BadChoice(f"{shown(name)} names no tool.", field="tools")
    choice, _ = ToolChoice.objects.update_or_create(
        room_id=seat.room_id, agent_id=seat.agent_id, member=member, defaults={"tools": names}
    )
    _record(seat, member, "choice.narrowed", count=len(names))
    return choice


@transaction.atomic
def keep_all_tools(*, room_id: Any, agent_slug: str, member: User) -> None:
    """Take a choice back, so that the agent may use whatever it is given."""
    seat = seat_of(room_id=room_id, agent_slug=agent_slug, member=member)
    gone, _ = ToolChoice.objects.filter(
        room_id=seat.room_id, agent_id=seat.agent_id, member=member
    ).delete()
    if gone:
        _record(seat, member, "choice.lifted")


def seat_of(*, room_id: Any, agent_slug: str, member: User) -> Seat:
    """Return an agent's seat in a room of this member, or refuse as if there were none."""
    room = visible_room(room_id=room_id, user=member)
    seat = Seat.objects.select_related("agent").filter(room=room, agent__slug=agent_slug).first()
    if seat is None:
        raise NoSuchSeat("That agent has no place in this room.", field="agent")
    return seat


def _record(seat: Seat, member: User, action: str, **facts: Any) -> None:
    record(
        actor=member,
        action=action,
        subject=f"room:{seat.room_id}",
        detail={"agent": seat.agent.slug, **facts},
    )
