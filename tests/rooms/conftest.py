"""People in a room, and a store that is theirs alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from apps.accounts.models import User
from apps.rooms import relay
from apps.rooms.models import Room
from apps.rooms.services import create_room, invite


@pytest.fixture
def owner(db: None) -> User:
    return User.objects.create_user("mira", password="x", display_name="Mira Lind")


@pytest.fixture
def guest(db: None) -> User:
    return User.objects.create_user("jon", password="x", display_name="Jon Berg")


@pytest.fixture
def stranger(db: None) -> User:
    return User.objects.create_user("sven", password="x")


@pytest.fixture
def room(owner: User, guest: User) -> Room:
    made = create_room(creator=owner, name="Launch")
    invite(room_id=made.pk, inviter=owner, username=guest.username)
    made.refresh_from_db()
    return made


@pytest.fixture
def store(embedded_services: None) -> Iterator[None]:
    """The store of the tests, through a fresh connection."""
    relay.client.cache_clear()
    yield
    relay.client.cache_clear()
