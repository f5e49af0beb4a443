"""How does a room change, and who may change it?"""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest
from django.db import DataError, connection, transaction

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.audit.models import AuditRow
from apps.core.errors import Conflict, Forbidden, Invalid, NotFound
from apps.rooms import services
from apps.rooms.models import Participant, Room, RoomEvent
from apps.rooms.services import (
    Event,
    RoomClosed,
    append_event,
    append_events,
    close_room,
    create_room,
    invite,
    publish_event,
    remove_participant,
    room_last,
)


def test_who_opens_a_room_owns_it(owner: User) -> None:
    room = create_room(creator=owner, name="  Launch   plan ")
    room.refresh_from_db()
    assert (room.name, room.position, room.roster_revision) == ("Launch plan", 1, 1)
    assert may(owner, Permission.ROOM_TAKE_PART, room)
    assert may(owner, Permission.ROOM_MANAGE, room)
    [event] = RoomEvent.objects.filter(room=room)
    assert (event.kind, event.actor) == ("participant.joined", owner.key)
    assert event.data["role"] == "owner"
    assert AuditRow.objects.filter(action="room.created", subject=room.key).count() == 1


@pytest.mark.parametrize("name", ["", "   ", "x" * 121])
def test_a_name_has_its_bounds(owner: User, name: str) -> None:
    with pytest.raises(Invalid) as refused:
        create_room(creator=owner, name=name)
    assert refused.value.field == "name"
    assert not Room.objects.exists()


def test_an_invitation_is_given_once(room: Room, owner: User, guest: User) -> None:
    before = RoomEvent.objects.filter(room=room).count()
    again = invite(room_id=room.pk, inviter=owner, username=guest.username)
    assert again.user_id == guest.pk
    assert RoomEvent.objects.filter(room=room).count() == before
    assert Participant.objects.filter(room=room, user=guest).count() == 1


def test_only_who_takes_part_may_invite(room: Room, stranger: User, guest: User) -> None:
    with pytest.raises(Forbidden):
        invite(room_id=room.pk, inviter=stranger, username=stranger.username)
    invite(room_id=room.pk, inviter=guest, username=stranger.username)
    assert may(stranger, Permission.ROOM_TAKE_PART, room)


def test_nobody_unknown_or_inactive_is_invited(room: Room, owner: User, stranger: User) -> None:
    User.objects.filter(pk=stranger.pk).update(is_active=False)
    for username in ("sven", "nobody"):
        with pytest.raises(NotFound) as refused:
            invite(room_id=room.pk, inviter=owner, username=username)
        assert refused.value.field == "username"


def test_a_room_has_room_for_so_many(
    room: Room, owner: User, stranger: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "MAX_PARTICIPANTS", 2)
    with pytest.raises(Conflict):
        invite(room_id=room.pk, inviter=owner, username=stranger.username)


def test_a_removal_takes_every_right_and_moves_the_roster_on(
    room: Room, owner: User, guest: User
) -> None:
    remove_participant(room_id=room.pk, actor=owner, username=guest.username)
    revision = room.roster_revision
    room.refresh_from_db()
    assert room.roster_revision == revision + 1
    assert not may(guest, Permission.ROOM_TAKE_PART, room)
    assert not Room.objects.visible_to(guest).exists()
    assert RoomEvent.objects.filter(room=room).last().kind == "participant.left"
    # The place is kept, and a new one can be had.
    assert Participant.objects.get(room=room, user=guest).left_at is not None
    invite(room_id=room.pk, inviter=owner, username=guest.username)
    assert Participant.objects.filter(room=room, user=guest, left_at=None).count() == 1


def test_a_guest_may_leave_and_may_remove_nobody(
    room: Room, owner: User, guest: User, stranger: User
) -> None:
    invite(room_id=room.pk, inviter=owner, username=stranger.username)
    with pytest.raises(Forbidden):
        remove_participant(room_id=room.pk, actor=guest, username=stranger.username)
    remove_participant(room_id=room.pk, actor=guest, username=guest.username)
    with pytest.raises(Forbidden):
        remove_participant(room_id=room.pk, actor=guest, username=guest.username)
    with pytest.raises(Conflict):
        remove_participant(room_id=room.pk, actor=owner, username=owner.username)


def test_a_closed_room_takes_nothing_new(
    room: Room, owner: User, guest: User, stranger: User
) -> None:
    with pytest.raises(Forbidden):
        close_room(room_id=room.pk, actor=guest)
    close_room(room_id=room.pk, actor=owner)
    for verb in (
        lambda: close_room(room_id=room.pk, actor=owner),
        lambda: invite(room_id=room.pk, inviter=owner, username=stranger.username),
    ):
        with pytest.raises(RoomClosed):
            verb()
    # Whoever wants to go may go.
    remove_participant(room_id=room.pk, actor=guest, username=guest.username)


def test_an_event_of_no_room_is_refused(db: None) -> None:
    with pytest.raises(NotFound):
        publish_event(room_id=uuid.uuid4(), kind="message.posted", actor="system:kaizen", data={})


def test_a_bell_rings_after_commit_and_carries_no_payload(
    room: Room,
    owner: User,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    rung: list[dict[str, Any]] = []
    monkeypatch.setattr("apps.rooms.relay._publish", lambda room_id, message: rung.append(message))
    with django_capture_on_commit_callbacks() as callbacks:
        position = append_event(
            room_id=room.pk, kind="message.posted", actor=owner, data={"text": "secret"}
        )
        assert rung == []
    for callback in callbacks:
        callback()
    assert rung == [{"bell": position, "revision": room.roster_revision}]


def test_events_held_back_come_at_the_end_and_go_with_what_raises(room: Room, owner: User) -> None:
    def say(word: str) -> None:
        publish_event(room_id=room.pk, kind="message.posted", actor=owner, data={"text": word})

    def say_in_vain() -> None:
        with room_last():
            say("undone")
            raise LookupError

    with room_last():
        say("first")
        with room_last():
            say("inner")
        with pytest.raises(LookupError):
            say_in_vain()
        assert not RoomEvent.objects.filter(kind="message.posted").exists()
        say("last")
    with pytest.raises(LookupError):
        say_in_vain()
    said = RoomEvent.objects.filter(kind="message.posted").order_by("position")
    assert [event.data["text"] for event in said] == ["first", "inner", "last"]
    say("now")
    assert said.all().count() == 4


def test_events_of_one_moment_cost_one_statement_and_ring_once(
    room: Room, owner: User, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    rung: list[dict[str, Any]] = []
    monkeypatch.setattr("apps.rooms.relay.ring_room", lambda **bell: rung.append(bell))
    before = room.position
    with django_assert_num_queries(1):
        last = append_events(
            [Event(room.pk, "message.posted", owner.key, {"n": number}) for number in range(3)]
        )
    said = RoomEvent.objects.filter(room=room, kind="message.posted").order_by("position")
    assert [(event.position - before, event.data["n"]) for event in said] == [
        (1, 0),
        (2, 1),
        (3, 2),
    ]
    assert last == before + 3
    assert [bell["position"] for bell in rung] == [last]


def test_events_of_several_rooms_keep_their_order_in_each(room: Room, owner: User) -> None:
    other = create_room(creator=owner, name="Other")
    with room_last():
        for number, place in enumerate((room, other, room, other)):
            publish_event(room_id=place.pk, kind="message.posted", actor=owner, data={"n": number})
    for place, numbers in ((room, [0, 2]), (other, [1, 3])):
        said = RoomEvent.objects.filter(room=place, kind="message.posted").order_by("position")
        assert [event.data["n"] for event in said] == numbers


@pytest.mark.django_db(transaction=True)
def test_the_last_events_take_the_commit_along(transactional_db: None) -> None:
    owner = User.objects.create_user("mira", password="x")
    room = create_room(creator=owner, name="Launch")
    after: list[int] = []
    with room_last():
        publish_event(room_id=room.pk, kind="message.posted", actor=owner, data={"n": 1})
        transaction.on_commit(lambda: after.append(RoomEvent.objects.filter(room=room).count()))
    assert after == [2]
    assert connection.get_autocommit()
    room.refresh_from_db()
    assert room.position == 2


@pytest.mark.django_db(transaction=True)
def test_events_inside_a_larger_transaction_commit_with_it_alone(transactional_db: None) -> None:
    owner = User.objects.create_user("mira", password="x")
    room = create_room(creator=owner, name="Launch")
    with pytest.raises(LookupError), transaction.atomic():
        with room_last():
            publish_event(room_id=room.pk, kind="message.posted", actor=owner, data={})
        raise LookupError
    room.refresh_from_db()
    assert room.position == RoomEvent.objects.filter(room=room).count() == 1


@pytest.mark.django_db(transaction=True)
def test_events_of_no_room_take_everything_back(transactional_db: None) -> None:
    owner = User.objects.create_user("mira", password="x")
    with pytest.raises(NotFound), room_last():
        User.objects.filter(pk=owner.pk).update(display_name="Changed")
        publish_event(room_id=uuid.uuid4(), kind="message.posted", actor=owner, data={})
    owner.refresh_from_db()
    assert owner.display_name == ""


@pytest.mark.django_db(transaction=True)
def test_last_events_that_cannot_be_written_take_everything_back(transactional_db: None) -> None:
    owner = User.objects.create_user("mira", password="x")
    room = create_room(creator=owner, name="Launch")
    with pytest.raises(DataError), room_last():
        Room.objects.filter(pk=room.pk).update(name="Changed")
        publish_event(room_id=room.pk, kind="x" * 41, actor=owner, data={})
    room.refresh_from_db()
    assert (room.name, room.position) == ("Launch", 1)
    # The connection is as good as before.
    publish_event(room_id=room.pk, kind="message.posted", actor=owner, data={})


@pytest.mark.django_db(transaction=True)
def test_a_position_is_never_seen_without_its_event(transactional_db: None) -> None:
    owner = User.objects.create_user("mira", password="x")
    room = create_room(creator=owner, name="Launch")
    with pytest.raises(DataError):
        publish_event(room_id=room.pk, kind="x" * 41, actor=owner, data={})
    room.refresh_from_db()
    assert room.position == RoomEvent.objects.filter(room=room).count() == 1


@pytest.mark.django_db(transaction=True)
def test_positions_are_taken_in_the_order_of_commits(transactional_db: None) -> None:
    owner = User.objects.create_user("mira", password="x")
    room = create_room(creator=owner, name="Launch")
    taken, committed = threading.Event(), threading.Event()
    order: list[str] = []

    def first() -> None:
        with transaction.atomic():
            publish_event(room_id=room.pk, kind="message.posted", actor=owner, data={"n": 1})
            taken.set()
            committed.wait(0.3)
            order.append("first")
        connection.close()

    def second() -> None:
        taken.wait()
        publish_event(room_id=room.pk, kind="message.posted", actor=owner, data={"n": 2})
        order.append("second")
        committed.set()
        connection.close()

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert order == ["first", "second"]
    numbers = RoomEvent.objects.filter(room=room, kind="message.posted").values_list(
        "position", "data__n"
    )
    assert list(numbers) == [(2, 1), (3, 2)]
