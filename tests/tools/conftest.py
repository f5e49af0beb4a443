"""Tools are tried in the same real sandbox as everywhere."""

import json
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.domain.archives import MANIFEST_NAME
from apps.rooms.models import Room
from apps.runs.models import Run
from tests.factories.packages import manifest, tree
from tests.factories.rooms import claimed_run, make_agent, make_member, make_room
from tests.sandboxd.conftest import daemon, sandbox_home
from tests.sandboxd.daemon import Daemon
from tests.tools.checking import Write

__all__ = ["daemon", "sandbox_home"]


@pytest.fixture
def supervised(settings: Any, daemon: Daemon) -> None:
    """Let this process ask the real supervisor."""
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)


@pytest.fixture
def member(db: Any) -> User:
    """Who starts runs."""
    return make_member("mara")


@pytest.fixture
def agent(member: User) -> Agent:
    """An agent that may use everything."""
    return make_agent(member, slug="scribe")


@pytest.fixture
def room(member: User, agent: Agent) -> Room:
    """A room of both."""
    return make_room(member, agent)


@pytest.fixture
def run(room: Room, agent: Agent, member: User) -> Run:
    """A run of the agent, held by this test's worker."""
    return claimed_run(room, agent, member)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a package into a folder of its own."""

    def to_disk(
        folder: str = "weather", given: Any = None, files: dict[str, bytes] | None = None
    ) -> Path:
        place = tmp_path / folder
        for path, content in (tree() if files is None else files).items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)
        (place / MANIFEST_NAME).write_text(json.dumps(manifest() if given is None else given))
        return place

    return to_disk
