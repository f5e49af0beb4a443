"""Does every durable event reach every viewer once, in order, and nobody else?"""

from __future__ import annotations

import json
import threading
import time

import pytest
from django.db import connection, transaction

from apps.accounts.models import User
from apps.rooms.models import Room, RoomEvent
from apps.rooms.services import (
    append_event,
    close_room,
    invite,
    remove_participant,
)
from tests.web.sockets.stack import WebServer, say

pytestmark = [pytest.mark.workers, pytest.mark.django_db(transaction=True)]


def test_nothing_is_lost_or_doubled_while_transactions_race(
    server: WebServer, room: Room, owner: User, guest: User
) -> None:
    viewers = [server.open(room.pk, user) for user in (owner, guest, owner)]
    for viewer in viewers:
        viewer.next()
    writers, each = 6, 40

    def publish(writer: int) -> None:
        try:
            for number in range(each):
                try:
                    with transaction.atomic():
                        say(room, owner, f"{writer}/{number}")
                        if number % 5 == 0:
                            # The position is taken; others wait for what becomes of it.
                            time.sleep(0.005)
                        if number % 7 == 3:
                            raise LookupError
                except LookupError:
                    continue
        finally:
            connection.close()

    threads = [threading.Thread(target=publish, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    late = [server.open(room.pk, guest) for _ in range(3)]
    for thread in threads:
        thread.join()
    room.refresh_from_db()
    stored = list(RoomEvent.objects.filter(room=room).values_list("position", flat=True))
    assert stored == list(range(1, room.position + 1))
    for viewer in viewers:
        viewer.event(room.position)
        assert viewer.positions() == list(range(viewer.seen[0]["position"] + 1, room.position + 1))
    for viewer in late:
        hello = viewer.next()
        if hello["position"] < room.position:
            viewer.event(room.position)
        assert viewer.positions() == list(range(hello["position"] + 1, room.position + 1))
    for viewer in [*viewers, *late]:
        viewer.close()


def test_a_client_that_comes_and_goes_misses_nothing(
    server: WebServer, room: Room, owner: User
) -> None:
    total = 150

    def publish() -> None:
        try:
            for number in range(total):
                say(room, owner, str(number))
                time.sleep(0.005)
        finally:
            connection.close()

    viewer = server.open(room.pk, owner)
    position = viewer.next()["position"]
    last, got = position + total, []
    writer = threading.Thread(target=publish)
    writer.start()
    while position < last:
        viewer.event(min(position + 7, last))
        got += viewer.positions()
        position = got[-1]
        viewer.close()
        viewer = server.open(room.pk, owner, after=position)
        assert viewer.next()["resumed"] is True
    writer.join()
    viewer.close()
    assert got == list(range(last - total + 1, last + 1))


def test_who_is_removed_sees_nothing_of_what_follows(
    server: WebServer, room: Room, owner: User, guest: User
) -> None:
    leaving, staying = server.open(room.pk, guest), server.open(room.pk, owner)
    for viewer in (leaving, staying):
        # Greeted first: what was said before a greeting arrives inside it.
        viewer.frame("hello")
    before = say(room, owner, "for both")
    for viewer in (leaving, staying):
        viewer.event(before)
    started = time.monotonic()
    remove_participant(room_id=room.pk, actor=owner, username=guest.username)
    secret = say(room, owner, "for one")
    assert leaving.closing() == 4403
    assert time.monotonic() - started < 10.0
    assert leaving.positions()[-1] == before
    staying.event(secret)
    assert server.open(room.pk, guest, after=before).closing() == 4403
    staying.close()


def test_a_removal_holds_within_one_batch_of_events(
    server: WebServer, room: Room, owner: User, guest: User
) -> None:
    leaving, staying = server.open(room.pk, guest), server.open(room.pk, owner)
    leaving.next()
    with transaction.atomic():
        last = say(room, owner, "still for both")
        remove_participant(room_id=room.pk, actor=owner, username=guest.username)
        end = say(room, owner, "for one")
    assert leaving.closing() == 4403
    # Removal and messages committed at once: none of them is for the one who left.
    assert last not in leaving.positions()
    staying.event(end)
    staying.close()


def test_a_new_participant_does_not_disturb_the_others(
    server: WebServer, room: Room, owner: User, stranger: User
) -> None:
    viewer = server.open(room.pk, owner)
    viewer.next()
    invite(room_id=room.pk, inviter=owner, username=stranger.username)
    joined = viewer.frame("event")
    assert (joined["kind"], joined["data"]["username"]) == ("participant.joined", "sven")
    newcomer = server.open(room.pk, stranger)
    assert newcomer.next()["type"] == "hello"
    newcomer.close()
    viewer.close()


def test_a_closed_room_can_still_be_watched(server: WebServer, room: Room, owner: User) -> None:
    viewer = server.open(room.pk, owner)
    viewer.next()
    close_room(room_id=room.pk, actor=owner)
    assert viewer.frame("event")["kind"] == "room.closed"
    again = server.open(room.pk, owner)
    assert again.next()["room"]["closed"] is True
    again.close()
    viewer.close()


@pytest.mark.parametrize(
    "message",
    [
        "",
        "{",
        "null",
        "[]",
        '"ping"',
        "[" * 4000,
        '{"type":"event"}',
        '{"type":"ping","more":1}',
        '{"type":"text"}',
        '{"type":"text","stream":7}',
        '{"type":"text","stream":""}',
        '{"type":"message.posted","text":"hello"}',
        json.dumps({"type": "text", "stream": "x" * 101}),
        # Half a character: an answer that named it could not be written to the wire.
        '{"type":"text","stream":"\\ud800"}',
        '{"type":"text","stream":"a\\u0000b"}',
        json.dumps({"type": "ping", "pad": "x" * 5000}),
        b'{"type":"ping"}',
    ],
)
def test_what_is_not_understood_closes_the_socket(
    server: WebServer, room: Room, owner: User, message: str | bytes
) -> None:
    viewer = server.open(room.pk, owner)
    viewer.next()
    viewer.send(message)
    assert viewer.closing() == 4400


def test_a_ping_is_answered_and_a_flood_is_not(server: WebServer, room: Room, owner: User) -> None:
    viewer = server.open(room.pk, owner)
    viewer.next()
    viewer.send({"type": "ping"})
    viewer.frame("pong")
    for _ in range(60):
        viewer.send({"type": "ping"})
    assert viewer.closing() == 4429


def test_a_slow_viewer_is_sent_back_and_holds_nobody_up(
    server: WebServer, room: Room, owner: User, guest: User
) -> None:
    slow, quick = server.open(room.pk, guest, slow=True), server.open(room.pk, owner)
    slow.next()
    quick.next()
    filler = "x" * 20_000
    for _ in range(600):
        last = append_event(
            room_id=room.pk, kind="message.posted", actor=owner, data={"text": filler}
        )
    started = time.monotonic()
    quick.event(last)
    assert time.monotonic() - started < 20.0
    # A client that takes nothing does not take the closing message either.
    assert slow.closing(20) in (4008, 1006)
    # Whatever arrived is whole and in order, and the rest follows from there.
    seen = slow.positions()
    assert seen == list(range(slow.seen[0]["position"] + 1, seen[-1] + 1 if seen else 0))
    back = server.open(room.pk, guest, after=last - 400)
    back.next()
    back.event(last)
    assert back.positions() == list(range(last - 399, last + 1))
    for viewer in (quick, back):
        viewer.close()
