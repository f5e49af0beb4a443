"""What does a socket say first, and to whom does it say anything?"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import redis
from websockets.exceptions import InvalidStatus

from apps.accounts.models import User
from apps.rooms.models import Room
from apps.rooms.services import create_room
from apps.rooms.tickets import issue_ticket
from tests.web.sockets.stack import Valkey, WebServer, say

pytestmark = [pytest.mark.workers, pytest.mark.django_db(transaction=True)]


def test_a_snapshot_comes_first_and_events_follow(
    server: WebServer, room: Room, owner: User, guest: User
) -> None:
    say(room, guest, "before")
    viewer = server.open(room.pk, owner)
    hello = viewer.next()
    assert hello["type"] == "hello"
    assert hello["room"] == {"id": str(room.pk), "name": "Launch", "closed": False}
    assert hello["me"] == {"id": owner.pk, "username": "mira", "name": "Mira Lind"}
    assert hello["resumed"] is False
    assert hello["revision"] == room.roster_revision
    snapshot = hello["snapshot"]
    assert snapshot["items"][-1]["data"] == {"text": "before"}
    assert snapshot["items"][-1]["position"] == hello["position"]
    assert {one["username"]: one["online"] for one in snapshot["participants"]} == {
        "mira": True,
        "jon": False,
    }
    position = say(room, guest, "after")
    event = viewer.event(position)
    assert (event["kind"], event["actor"]) == ("message.posted", f"user:{guest.pk}")
    assert event["data"] == {"text": "after"}
    viewer.close()


def test_a_client_resumes_after_its_position(server: WebServer, room: Room, owner: User) -> None:
    here = say(room, owner, "one")
    missed = [say(room, owner, word) for word in ("two", "three")]
    viewer = server.open(room.pk, owner, after=here)
    hello = viewer.next()
    assert hello["resumed"] is True
    assert hello["snapshot"] is None
    assert hello["position"] == missed[-1]
    next_one = say(room, owner, "four")
    viewer.event(next_one)
    assert viewer.positions() == [*missed, next_one]
    viewer.close()


def test_a_client_too_far_behind_or_ahead_gets_a_snapshot(
    server: WebServer, room: Room, owner: User
) -> None:
    for number in range(501):
        say(room, owner, str(number))
    for after in (1, 10**9):
        viewer = server.open(room.pk, owner, after=after)
        hello = viewer.next()
        assert hello["resumed"] is False
        assert len(hello["snapshot"]["items"]) == 200
        assert hello["snapshot"]["more"] is True
        viewer.close()


@pytest.mark.parametrize("after", ["-1", "1.5", "ten", "9" * 40, "%00"])
def test_a_position_that_is_no_number_is_refused(
    server: WebServer, room: Room, owner: User, after: str
) -> None:
    assert server.open(room.pk, owner, after=after).closing() == 4400


def test_presence_follows_who_comes_and_goes(
    server: WebServer, room: Room, owner: User, guest: User
) -> None:
    first = server.open(room.pk, owner)
    first.frame("presence")
    second = server.open(room.pk, guest)
    assert first.frame("presence")["online"] == sorted([owner.pk, guest.pk])
    assert all(one["online"] for one in second.next()["snapshot"]["participants"])
    second.close()
    assert first.frame("presence")["online"] == [owner.pk]
    first.close()


def test_only_participants_get_in(
    server: WebServer, room: Room, owner: User, stranger: User
) -> None:
    foreign = create_room(creator=stranger, name="Elsewhere")
    assert server.open(room.pk, stranger).closing() == 4403
    assert server.open(foreign.pk, owner).closing() == 4403
    # A foreign room and a missing one look alike.
    assert server.open(uuid.uuid4(), owner).closing() == 4403
    assert server.open(room.pk).closing() == 4401


def test_a_deactivated_member_is_not_signed_in(server: WebServer, room: Room, guest: User) -> None:
    User.objects.filter(pk=guest.pk).update(is_active=False)
    assert server.open(room.pk, guest).closing() == 4401


@pytest.mark.parametrize(
    "origin", ["http://evil.test", "https://kaizen.test", "http://kaizen.test:nine", "null", None]
)
def test_a_foreign_origin_is_refused_before_the_handshake(
    server: WebServer, room: Room, owner: User, origin: str | None
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        server.open(room.pk, owner, origin=origin)
    assert refused.value.response.status_code == 403


def test_an_address_without_a_room_is_refused(server: WebServer, owner: User) -> None:
    with pytest.raises(InvalidStatus) as refused:
        server.open("not-a-room", owner)
    assert refused.value.response.status_code == 403


def test_a_ticket_opens_one_socket_once(server: WebServer, room: Room, guest: User) -> None:
    ticket = issue_ticket(guest, room.pk)
    viewer = server.open(room.pk, origin=None, ticket=ticket)
    assert viewer.next()["me"]["username"] == "jon"
    assert server.open(room.pk, origin=None, ticket=ticket).closing() == 4401
    viewer.close()


def test_a_ticket_is_bound_to_its_room_and_time(
    server: WebServer, valkey: Valkey, room: Room, owner: User
) -> None:
    other = create_room(creator=owner, name="Other")
    elsewhere = issue_ticket(owner, other.pk)
    assert server.open(room.pk, origin=None, ticket=elsewhere).closing() == 4401
    # It was spent in trying.
    assert server.open(other.pk, origin=None, ticket=elsewhere).closing() == 4401
    late = issue_ticket(owner, room.pk)
    store = redis.Redis.from_url(valkey.url)
    [key] = store.scan_iter("kaizen:ticket:*")
    assert 0 < store.ttl(key) <= 30
    assert late.encode() not in key
    store.pexpire(key, 1)
    assert server.open(room.pk, origin=None, ticket=late).closing() == 4401
    assert server.open(room.pk, origin=None, ticket="x" * 5000).closing() == 4401


def test_a_ticket_outranks_a_session_and_a_foreign_origin_outranks_a_ticket(
    server: WebServer, room: Room, owner: User, guest: User
) -> None:
    ticket = issue_ticket(guest, room.pk)
    viewer = server.open(room.pk, owner, ticket=ticket)
    assert viewer.next()["me"]["username"] == "jon"
    viewer.close()
    assert server.open(room.pk, owner, ticket="unknown").closing() == 4401
    with pytest.raises(InvalidStatus):
        server.open(room.pk, origin="http://evil.test", ticket=issue_ticket(guest, room.pk))


def test_a_member_has_a_bounded_number_of_sockets(
    server: WebServer, room: Room, guest: User
) -> None:
    opened = [server.open(room.pk, guest) for _ in range(20)]
    for viewer in opened:
        viewer.next()
    assert server.open(room.pk, guest).closing() == 4429
    opened[0].close()
    for viewer in opened[1:]:
        viewer.close()
    again = server.open(room.pk, guest)
    assert again.next()["type"] == "hello"
    again.close()


def test_the_number_of_queries_of_a_snapshot_is_constant(
    room: Room, owner: User, django_assert_num_queries: Any
) -> None:
    from apps.web.snapshot import durable_part

    with django_assert_num_queries(7):
        durable_part(room)
    for word in "abcdef":
        say(room, owner, word)
    with django_assert_num_queries(7):
        durable_part(room)
