"""What does a hub do when something under it breaks?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from django import db

from apps.rooms import hub as hubs
from apps.rooms.hub import Hub, the_hub
from apps.rooms.selectors import Mark, NewEvents
from apps.rooms.viewers import NOT_HERE, RESTARTING, CannotWatch, Viewer
from apps.rooms.watched import Watched

pytestmark = pytest.mark.usefixtures("store")

ROOM = "00000000-0000-0000-0000-000000000001"


class Database:
    """A database with one room, that may be away."""

    def __init__(self) -> None:
        self.position = self.revision = 1
        self.members = {1, 2}
        self.away = False
        self.asked: list[str] = []

    async def read(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.asked.append(function.__name__)
        await asyncio.sleep(0)
        if self.away:
            raise db.OperationalError("away")
        if function.__name__ == "room_marks":
            return {ROOM: Mark(self.position, self.revision)}
        if function.__name__ == "participants_among":
            return self.members & set(kwargs["user_ids"])
        numbers = range(kwargs["position"] + 1, self.position + 1)
        events = [
            {"type": "event", "position": number, "kind": "message.posted", "data": {}}
            for number in numbers
        ][: kwargs["limit"]]
        return NewEvents(events, self.revision if events else None)


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    stand_in = Database()
    monkeypatch.setattr(hubs, "read", stand_in.read)
    monkeypatch.setattr(hubs, "_RETRY", 0.05)
    monkeypatch.setattr(hubs, "COMPARE_SECONDS", 0.05)
    return stand_in


@pytest.fixture
async def hub(database: Database) -> AsyncIterator[Hub]:
    yield the_hub()
    # Whatever is left ends with the loop; the sockets' connections are given back first.
    await the_hub()._subscription.close()


async def viewer_of(hub: Hub, user_id: int = 1) -> tuple[Watched, Viewer]:
    room, viewer = await hub.join(room_id=ROOM, user_id=user_id)
    hub.begin(room=room, viewer=viewer, position=room.position, revision=room.revision)
    return room, viewer


async def position_of(viewer: Viewer) -> int:
    while True:
        message = json.loads(await asyncio.wait_for(viewer.next(), 5))
        if message["type"] == "event":
            return int(message["position"])


async def test_a_database_that_is_away_costs_time_and_no_event(
    hub: Hub, database: Database
) -> None:
    _, viewer = await viewer_of(hub)
    database.away = True
    database.position = 250
    await asyncio.sleep(0.2)
    database.away = False
    assert [await position_of(viewer) for _ in range(249)] == list(range(2, 251))


async def test_nobody_sees_anything_while_the_roster_cannot_be_read(
    hub: Hub, database: Database
) -> None:
    room, staying = await viewer_of(hub, 1)
    _, leaving = await viewer_of(hub, 2)
    database.away = True
    database.members = {1}
    database.revision = database.position = 2
    room.learn_revision(2)
    room.hand_out([{"type": "event", "position": 2, "kind": "message.posted", "data": {}}])
    for viewer in (staying, leaving):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(viewer.next(), 0.1)
    database.away = False
    assert await position_of(staying) == 2
    assert await asyncio.wait_for(leaving.ended, 5) is NOT_HERE


async def test_a_room_that_cannot_be_read_is_not_opened(hub: Hub, database: Database) -> None:
    database.away = True
    for _ in range(2):
        with pytest.raises(CannotWatch) as refused:
            await hub.join(room_id=ROOM, user_id=1)
        assert refused.value.ending is RESTARTING
    database.away = False
    await viewer_of(hub)


async def test_one_reading_serves_every_viewer(hub: Hub, database: Database) -> None:
    viewers = [(await viewer_of(hub))[1] for _ in range(30)]
    database.asked.clear()
    database.position = 2
    for viewer in viewers:
        assert await position_of(viewer) == 2
    assert database.asked.count("new_events") <= 2
    assert database.asked.count("participants_among") == 0


async def test_a_hub_that_breaks_sends_everybody_to_a_fresh_one(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, viewer = await viewer_of(hub)

    def broken(*_: Any) -> None:
        raise LookupError

    monkeypatch.setattr(room, "hand_out", broken)
    room.look(behind=True)
    assert await asyncio.wait_for(viewer.ended, 5) is RESTARTING
    with pytest.raises(CannotWatch):
        hub.admit(1)
    fresh = the_hub()
    assert fresh is not hub
    fresh.admit(1)
    _, again = await viewer_of(fresh)
    assert not again.ended.done()


async def test_sockets_are_counted_in_and_out(hub: Hub) -> None:
    for _ in range(hubs.SOCKETS_PER_MEMBER):
        hub.admit(7)
    with pytest.raises(CannotWatch):
        hub.admit(7)
    hub.admit(8)
    hub.release(7)
    hub.admit(7)


async def test_a_room_that_nobody_watches_is_let_go(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "_GRACE", 0.05)
    room, viewer = await viewer_of(hub)
    hub.leave(room=room, viewer=viewer)
    deadline = asyncio.get_running_loop().time() + 5
    while ROOM in hub._rooms:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.02)
    again, _ = await viewer_of(hub)
    assert again is not room
