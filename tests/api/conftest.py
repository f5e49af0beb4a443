"""A room with two members, an agent and something to see, and programs that look at it."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.artifacts.models import Artifact
from apps.rooms.models import Room
from apps.runs.models import Call, Run
from tests.factories.clients import client_of
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room


@pytest.fixture
def mara(db: Any) -> User:
    return make_member()


@pytest.fixture
def tomas(db: Any) -> User:
    return make_member()


@pytest.fixture
def stranger(db: Any) -> User:
    return make_member()


@pytest.fixture
def agent(mara: User) -> Agent:
    return make_agent(mara)


@pytest.fixture
def room(mara: User, agent: Agent, tomas: User) -> Room:
    return make_room(mara, agent, tomas)


@pytest.fixture
def run(room: Room, agent: Agent, mara: User) -> Run:
    return claimed_run(room, agent, mara)


@pytest.fixture
def call(run: Run) -> Call:
    """A settled call that made an artifact."""
    arguments = {"title": "Plan", "kind": "markdown", "body": "# Plan\n\nsecret word"}
    return crossed(run, "create_artifact", arguments).call


@pytest.fixture
def artifact(call: Call) -> Artifact:
    return Artifact.objects.get()


@pytest.fixture
def as_mara(mara: User) -> APIClient:
    return client_of(mara)


@pytest.fixture
def as_tomas(tomas: User) -> APIClient:
    return client_of(tomas)


@pytest.fixture
def as_stranger(stranger: User) -> APIClient:
    return client_of(stranger)
