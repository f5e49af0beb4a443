"""What happens when a member says something in a room?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.artifacts.selectors import artifact_to_change
from apps.core.errors import Conflict, Invalid
from apps.rooms.models import Room
from apps.rooms.selectors import visible_room
from apps.rooms.services import RoomClosed, append_event, lock_open_room
from apps.runs.models import Run, Seat
from apps.runs.routing import Routed
from apps.runs.selectors import seats_of
from apps.runs.services import lock_seat, member_card, start_run
from apps.tools.catalog import offered_tools

MAX_TEXT = 20_000

_MENTION = re.compile(r"(?<![\w@])@")


CHANGES = "update_artifact"
"""The tool to which a wish for a change of an artifact is routed."""


class ToolNotOffered(Conflict):
    """The agent that was asked does not have the tool that this takes."""

    code = "tool_not_offered"


class AgentSwitchedOff(Conflict):
    """The agent that was named is switched off."""

    code = "agent_disabled"


@dataclass(frozen=True, slots=True)
class Posted:
    """A message in its place, and what it set going: a run, a place in the line, or nothing."""

    position: int
    run: Run | None
    queued: bool
    steers: bool = False


@transaction.atomic
def post_message(
    *,
    room_id: Any,
    member: User,
    text: str,
    steer: bool = False,
    about: Any = None,
) -> Posted:
    """Say something in a room; the agent named with @, else the only one seated, answers.

    One that steers goes to the agent's run that already works for this member, if there is one.
    One about an artifact asks for a change of it: the server routes the run to the tool for that.
    """
    room = visible_room(room_id=room_id, user=member)
    if room.closed_at is not None:
        raise RoomClosed("This room is closed. It can be read, and nothing new can be said in it.")
    _check_text(text)
    seats = list(seats_of(room))
    slug = _addressed(seats, text)
    routed = None
    if about is not None:
        routed = _route(
            room, member, about, next((s.agent for s in seats if s.agent.slug == slug), None)
        )
    # The seat comes before the room in the order of locks, and the event locks the room.
    seat = None if slug is None else lock_seat(room_id=room.pk, agent_slug=slug)
    # Locked and looked at again: it may have been closed, or the member taken out, meanwhile.
    lock_open_room(room.pk)
    visible_room(room_id=room_id, user=member)
    position = append_event(
        room_id=room.pk,
        kind="message.posted",
        actor=member,
        data={
            "author": {"kind": "user", **member_card(member)},
            "text": text,
            **({} if routed is None else {"about": _told(routed)}),
        },
    )
    if seat is None:
        return Posted(position=position, run=None, queued=False)
    started = start_run(
        seat=seat, member=member, text=text, position=position, steer=steer, routed=routed
    )
    return Posted(position=position, run=started.run, queued=started.queued, steers=started.steers)


def _route(room: Room, member: User, artifact_id: Any, agent: Agent | None) -> Routed:
    """Return where a wish for a change goes, or refuse: it can only be met by such an agent."""
    artifact = artifact_to_change(artifact_id=artifact_id, room_id=room.pk, user=member)
    if agent is None:
        raise Invalid("Name the agent that should change it with @.", field="text")
    # A run that nobody starts: what it would be offered here, for this member, as things stand.
    run = Run(room_id=room.pk, agent=agent, member=member)
    if all(tool.spec.name != CHANGES for tool in offered_tools(run)):
        raise ToolNotOffered(
            f"{agent.name} does not have {CHANGES} for you in this room, so it cannot change"
            " an artifact.",
            field="about",
        )
    return Routed(CHANGES, str(artifact.pk), artifact.title, artifact.head)


def _told(routed: Routed) -> dict[str, Any]:
    """Return what the room shows of what a message is about."""
    return {"artifact": routed.artifact, "title": routed.title, "version": routed.version}


def _check_text(text: str) -> None:
    if not text.strip() or len(text) > MAX_TEXT or "\x00" in text:
        raise Invalid(
            f"A message has 1 to {MAX_TEXT:,} characters that are not all space, and no NUL.",
            field="text",
        )


def _addressed(seats: list[Seat], text: str) -> str | None:
    """Return the slug of the agent that a message is for, if it is for one."""
    named = _named(seats, text)
    if named is not None:
        if not named.agent.enabled:
            raise AgentSwitchedOff(f"{named.agent.name} is switched off.", field="text")
        return named.agent.slug
    only = [seat.agent for seat in seats if seat.agent.enabled] if len(seats) == 1 else []
    return only[0].slug if only else None


def _named(seats: list[Seat], text: str) -> Seat | None:
    """Find the first seat that is named with @, by slug or by name; the longest one wins.

    Slugs are nobody else's, and names are free: so of two as long, the slug wins.
    """
    slugs = [(seat.agent.slug, seat) for seat in seats]
    names = [(seat.agent.name.casefold(), seat) for seat in seats]
    calls = sorted(slugs + names, key=lambda pair: -len(pair[0]))
    for mention in _MENTION.finditer(text):
        rest = text[mention.end() : mention.end() + 100].casefold()
        for word, seat in calls:
            if rest.startswith(word) and not _goes_on(rest[len(word) :]):
                return seat
    return None


def _goes_on(rest: str) -> bool:
    """Say whether a name is only the beginning of a longer word, such as `@ada` in `@ada-two`."""
    return bool(re.match(r"\w|-\w", rest))
