from collections.abc import Iterator
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.rooms.models import Room
from tests.factories.rooms import make_agent, make_member, make_room
from tests.turns.fake_model import FakeModel, fake_model


@pytest.fixture
def member(transactional_db: Any) -> User:
    return make_member("mara")


@pytest.fixture
def agent(member: User) -> Agent:
    return make_agent(member, slug="scribe")


@pytest.fixture
def room(member: User, agent: Agent) -> Room:
    return make_room(member, agent)


@pytest.fixture
def model(settings: Any) -> Iterator[FakeModel]:
    """A real HTTP endpoint that plays the model."""
    with fake_model() as model:
        settings.KAIZEN_MODEL_URL = model.url
        settings.KAIZEN_MODEL_NAME = "fake"
        settings.KAIZEN_MODEL_KEY = "key"
        yield model
