"""What becomes of a room while Redis is away, and afterwards?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.accounts.models import User
from apps.core.errors import Unavailable
from apps.rooms.models import Room
from apps.rooms.services import remove_participant
from apps.rooms.tickets import issue_ticket
from apps.web.snapshot import room_snapshot
from tests.web.sockets.stack import Valkey, WebServer, say
from tests.web.sockets.test_frames import Preview, writer_of

pytestmark = [pytest.mark.workers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def whole_valkey(valkey: Valkey) -> Iterator[Valkey]:
    yield valkey
    valkey.thaw()


def test_ten_seconds_without_the_store_lose_nothing(
    server: WebServer, valkey: Valkey, room: Room, owner: User, guest: User
) -> None:
    viewer, leaving = server.open(room.pk, owner), server.open(room.pk, guest)
    first = viewer.next()["position"]
    leaving.next()
    writer = writer_of(room, owner)
    writer.open()
    writer.feed("before, ")
    preview = Preview()
    preview.follow(viewer, "before, ")
    viewer.event(say(room, owner, "before"))

    valkey.kill()
    gone = time.monotonic()
    text = "before, "
    while time.monotonic() - gone < 9.0:
        sent = time.monotonic()
        position = say(room, owner, "meanwhile")
        writer.feed("meanwhile, ")
        text += "meanwhile, "
        viewer.event(position, seconds=5)
        # The hub looks by itself once a second.
        assert time.monotonic() - sent < 10.0
    removed = time.monotonic()
    remove_participant(room_id=room.pk, actor=owner, username=guest.username)
    assert leaving.closing(3) == 4403
    assert time.monotonic() - removed < 10.0
    # A page still shows everything durable, and a socket still opens.
    assert room_snapshot(room, owner)["streams"] == []
    late = server.open(room.pk, owner)
    snapshot = late.next()["snapshot"]
    assert snapshot["items"][-1]["kind"] == "participant.left"
    late_preview = Preview()
    late_preview.take(snapshot["streams"][0])
    with pytest.raises(Unavailable):
        issue_ticket(owner, room.pk)
    assert server.open(room.pk, origin=None, ticket="any").closing() == 4503

    valkey.start()
    writer.feed("after")
    text += "after"
    preview.follow(viewer, text, seconds=10)
    late_preview.follow(late, text, seconds=10)
    deadline = time.monotonic() + 20
    quick = False
    while not quick:
        sent = time.monotonic()
        viewer.event(say(room, owner, "after"))
        quick = time.monotonic() - sent < 0.2
        assert time.monotonic() < deadline, "Bells are not heard again."
    writer.close("said")
    assert viewer.frame("stream.close")["outcome"] == "said"
    room.refresh_from_db()
    assert viewer.positions() == list(range(first + 1, room.position + 1))
    viewer.close()
    late.close()


def test_a_store_that_hangs_holds_nobody_up(
    server: WebServer, whole_valkey: Valkey, room: Room, owner: User, guest: User
) -> None:
    viewer, leaving = server.open(room.pk, owner), server.open(room.pk, guest)
    viewer.next()
    leaving.next()
    writer = writer_of(room, owner)
    writer.open()
    whole_valkey.freeze()
    fed = time.monotonic()
    for _ in range(100):
        writer.feed("never waits ")
    assert time.monotonic() - fed < 2.0
    sent = time.monotonic()
    position = say(room, owner, "still comes through")
    # The bell gives up after a second, and the hub looks by itself.
    viewer.event(position, seconds=5)
    assert time.monotonic() - sent < 10.0
    removed = time.monotonic()
    remove_participant(room_id=room.pk, actor=owner, username=guest.username)
    assert leaving.closing(4) == 4403
    assert time.monotonic() - removed < 10.0
    closing = time.monotonic()
    writer.close("dropped")
    assert time.monotonic() - closing < 5.0
    viewer.close()


def test_a_restart_of_the_web_server_ends_sockets_that_can_resume(
    valkey: Valkey, tmp_path: Path, room: Room, owner: User
) -> None:
    web = WebServer(redis_url=valkey.url, log=tmp_path / "log")
    web.start()
    viewer = web.open(room.pk, owner)
    position = viewer.next()["position"]
    stopping = time.monotonic()
    web.stop()
    assert time.monotonic() - stopping < 15.0
    assert viewer.closing() == 1012
    missed = say(room, owner, "missed")
    web.start()
    back = web.open(room.pk, owner, after=position)
    assert back.next()["resumed"] is True
    assert back.event(missed)["data"] == {"text": "missed"}
    back.close()
    web.stop()
    assert "Traceback" not in web.log()
