"""A member with an agent in a room, and an automation of theirs."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.automations.models import Automation
from apps.rooms.models import Room
from tests.factories.automations import OWN_TABLES, make_automation
from tests.factories.rooms import make_agent, make_member, make_room


@pytest.fixture
def member(db: Any) -> User:
    return make_member("mara")


@pytest.fixture
def agent(member: User) -> Agent:
    return make_agent(member, slug="scribe", ceiling=OWN_TABLES)


@pytest.fixture
def room(member: User, agent: Agent) -> Room:
    return make_room(member, agent)


@pytest.fixture
def automation(member: User, agent: Agent, room: Room) -> Automation:
    return make_automation(member, agent, room).automation
