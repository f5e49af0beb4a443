from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.boundary.external import Opened, open_external_run
from apps.rooms.models import Room
from apps.runs.models import Run
from tests.factories.rooms import claimed_run, make_agent, make_member, make_room


@pytest.fixture
def member(db: Any) -> User:
    return make_member("mara")


@pytest.fixture
def guest(db: Any) -> User:
    return make_member("tomas")


@pytest.fixture
def agent(member: User) -> Agent:
    return make_agent(member, slug="scribe")


@pytest.fixture
def room(member: User, agent: Agent, guest: User) -> Room:
    return make_room(member, agent, guest)


@pytest.fixture
def run(room: Room, agent: Agent, member: User) -> Run:
    return claimed_run(room, agent, member)


@pytest.fixture
def opened(room: Room, member: User) -> Opened:
    """A run of another runtime, with its token."""
    return open_external_run(room_id=room.pk, member=member, agent_slug="scribe")
