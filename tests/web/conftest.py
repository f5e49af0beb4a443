from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.rooms.models import Room
from tests.browser import beside_a_browser, chromium
from tests.factories.rooms import make_agent, make_member, make_room
from tests.web.modules import blank_page, run

__all__ = ["beside_a_browser", "blank_page", "chromium", "run"]


def signed_in(user: User) -> Client:
    """A browser of somebody who has signed in."""
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def member(db: Any) -> User:
    return make_member("mara")


@pytest.fixture
def guest(db: Any) -> User:
    return make_member("tomas")


@pytest.fixture
def stranger(db: Any) -> User:
    return make_member("noor")


@pytest.fixture
def agent(member: User) -> Agent:
    return make_agent(member, slug="scribe")


@pytest.fixture
def room(member: User, agent: Agent, guest: User) -> Room:
    return make_room(member, agent, guest)
