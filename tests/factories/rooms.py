"""People, agents, rooms and runs to test with, made by the product's own verbs."""

from __future__ import annotations

import itertools
import json
from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.services import create_agent
from apps.boundary.crossing import Crossed
from apps.boundary.pipeline import cross
from apps.boundary.proposing import Proposal, propose
from apps.domain.tooling import Capability
from apps.rooms.models import Room
from apps.rooms.services import create_room, invite
from apps.runs.claims import claim_run, fenced, lock_call
from apps.runs.models import Run
from apps.runs.services import add_seat, lock_seat, start_run
from apps.tools.catalog import freeze

_numbers = itertools.count(1)
EVERYTHING = [capability.value for capability in Capability]


def make_member(username: str = "") -> User:
    """A member who may sign in."""
    name = username or f"member{next(_numbers)}"
    return User.objects.create_user(username=name, password="a long enough secret")


def make_agent(owner: User, *, slug: str = "", ceiling: list[str] | None = None) -> Agent:
    """An agent that its owner manages."""
    slug = slug or f"agent{next(_numbers)}"
    return create_agent(
        owner=owner,
        slug=slug,
        name=slug.title(),
        description="",
        persona="",
        ceiling=EVERYTHING if ceiling is None else ceiling,
    )


def make_room(owner: User, agent: Agent | None = None, *guests: User) -> Room:
    """A room of its owner, with an agent's seat and guests."""
    room = create_room(creator=owner, name=f"Room {next(_numbers)}")
    for guest in guests:
        invite(room_id=room.pk, inviter=owner, username=guest.username)
    if agent is not None:
        add_seat(room_id=room.pk, member=owner, agent_slug=agent.slug)
    return Room.objects.get(pk=room.pk)


def make_run(room: Room, agent: Agent, member: User, text: str = "Hello") -> Run:
    """A run that waits for a worker."""
    with transaction.atomic():
        seat = lock_seat(room_id=room.pk, agent_slug=agent.slug)
        assert seat is not None
        started = start_run(seat=seat, member=member, text=text, position=1)
    assert started.run is not None
    return started.run


def claimed_run(room: Room, agent: Agent, member: User) -> Run:
    """A run that this test's worker holds, with its catalog frozen."""
    run = make_run(room, agent, member)
    assert claim_run(run_id=run.pk, worker="test") == 1
    run = Run.objects.select_related("agent", "member", "room").get(pk=run.pk)
    freeze(run)
    run.save()
    return run


def proposed(run: Run, tool: str, arguments: Any, *, step: int = 1, place: int = 0) -> Any:
    """A stored call of a run."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    with fenced(run_id=run.pk, fence=run.fence) as locked:
        return propose(
            run=locked,
            step=step,
            place=place,
            proposal=Proposal(f"{step}.{place}", tool, text),
        )


def crossed(run: Run, tool: str, arguments: Any, *, step: int = 1, place: int = 0) -> Crossed:
    """A call taken as far as it goes at once."""
    call = proposed(run, tool, arguments, step=step, place=place)
    with fenced(run_id=run.pk, fence=run.fence) as locked:
        return cross(run=locked, call=lock_call(call.pk))
