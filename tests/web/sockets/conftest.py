"""A running web server, a Valkey of its own, and people in a room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import User
from apps.rooms import relay
from apps.rooms.models import Room
from apps.rooms.services import create_room, invite
from tests.web.sockets.stack import Valkey, WebServer


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    store = Valkey(tmp_path_factory.mktemp("valkey"))
    store.start()
    yield store
    store.kill()


@pytest.fixture(scope="module")
def server(
    valkey: Valkey, tmp_path_factory: pytest.TempPathFactory, django_db_setup: None
) -> Iterator[WebServer]:
    web = WebServer(redis_url=valkey.url, log=tmp_path_factory.mktemp("web") / "log")
    web.start()
    yield web
    web.stop()


@pytest.fixture(autouse=True)
def same_store(valkey: Valkey, settings: Any) -> Iterator[None]:
    """Let this process, which publishes, speak through the server's Valkey."""
    settings.REDIS_URL = valkey.url
    relay.client.cache_clear()
    yield
    relay.client.cache_clear()


@pytest.fixture
def owner(transactional_db: None) -> User:
    return User.objects.create_user("mira", password="x", display_name="Mira Lind")


@pytest.fixture
def guest(transactional_db: None) -> User:
    return User.objects.create_user("jon", password="x", display_name="Jon Berg")


@pytest.fixture
def stranger(transactional_db: None) -> User:
    return User.objects.create_user("sven", password="x")


@pytest.fixture
def room(owner: User, guest: User) -> Room:
    made = create_room(creator=owner, name="Launch")
    invite(room_id=made.pk, inviter=owner, username=guest.username)
    made.refresh_from_db()
    return made


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path
