"""How runs, seats and inputs behave, and what may race."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection, transaction

from apps.accounts.models import User
from apps.boundary.services import stop_run
from apps.core.errors import Conflict, Forbidden, NotFound
from apps.rooms.models import Room, RoomEvent
from apps.rooms.services import RoomClosed, close_room
from apps.runs import bodies
from apps.runs.claims import claim_run, fenced, release_claim, renew_claim
from apps.runs.errors import RunNotFound, RunOver, StaleFence
from apps.runs.models import Run, RunInput
from apps.runs.selectors import ready_runs
from apps.runs.services import add_seat, finish_run, lock_seat, remove_seat, start_run
from tests.factories.rooms import make_agent, make_member, make_room, make_run

PAST = "2020-01-01T00:00Z"


@pytest.fixture
def member(db: Any) -> User:
    return make_member("mara")


@pytest.fixture
def room(member: User) -> Room:
    return make_room(member, make_agent(member, slug="scribe"))


@pytest.fixture
def run(room: Room, member: User) -> Run:
    return make_run(room, room.seats.get().agent, member)


def test_a_claim_raises_the_fence_and_holds_until_it_expires(run: Run) -> None:
    assert claim_run(run_id=run.pk, worker="a") == 1
    assert claim_run(run_id=run.pk, worker="b") is None
    Run.objects.update(claim_expires_at=PAST)
    assert list(ready_runs(10)) == [run.pk]
    assert claim_run(run_id=run.pk, worker="b") == 2
    assert not renew_claim(run_id=run.pk, fence=1)
    assert renew_claim(run_id=run.pk, fence=2)


def test_only_the_current_fence_writes(run: Run) -> None:
    claim_run(run_id=run.pk, worker="a")
    with fenced(run_id=run.pk, fence=1):
        pass
    with pytest.raises(StaleFence), fenced(run_id=run.pk, fence=0):
        pass
    release_claim(run_id=run.pk, fence=1)
    with pytest.raises(StaleFence), fenced(run_id=run.pk, fence=1):
        pass


def test_nothing_is_written_for_a_run_that_has_ended(run: Run) -> None:
    claim_run(run_id=run.pk, worker="a")
    with fenced(run_id=run.pk, fence=1) as locked:
        finish_run(run=locked, outcome=Run.Outcome.COMPLETED)
    with pytest.raises(RunOver), fenced(run_id=run.pk, fence=1):
        pass


def test_stop_is_for_the_runs_member_and_the_rooms_owner(
    room: Room, member: User, run: Run
) -> None:
    stranger, guest = make_member(), make_member()
    with pytest.raises(RunNotFound):
        stop_run(run_id=run.pk, member=stranger)
    from apps.rooms.services import invite

    invite(room_id=room.pk, inviter=member, username=guest.username)
    with pytest.raises(Forbidden):
        stop_run(run_id=run.pk, member=guest)
    assert stop_run(run_id=run.pk, member=member).outcome == "stopped"


def test_an_agent_that_the_member_may_not_use_gets_no_seat(room: Room, member: User) -> None:
    foreign = make_agent(make_member())
    with pytest.raises(NotFound):
        add_seat(room_id=room.pk, member=member, agent_slug=foreign.slug)


def test_a_seat_that_is_given_twice_is_one_seat(room: Room, member: User) -> None:
    add_seat(room_id=room.pk, member=member, agent_slug="scribe")
    assert room.seats.count() == 1
    assert RoomEvent.objects.filter(room=room, kind="seat.added").count() == 1


def test_a_seat_taken_away_takes_its_waiting_inputs_along(
    room: Room, member: User, run: Run
) -> None:
    seat = lock_seat(room_id=room.pk, agent_slug="scribe")
    assert seat is not None
    start_run(seat=seat, member=member, text="later", position=2)
    remove_seat(room_id=room.pk, member=member, agent_slug="scribe")
    assert not RunInput.objects.filter(run=None).exists()
    run.refresh_from_db()
    assert run.state == "queued"


def test_inputs_that_wait_are_bounded(room: Room, member: User, run: Run) -> None:
    seat = lock_seat(room_id=room.pk, agent_slug="scribe")
    assert seat is not None
    for position in range(20):
        start_run(seat=seat, member=member, text="more", position=position)
    with pytest.raises(Conflict):
        start_run(seat=seat, member=member, text="too much", position=99)


def test_a_closed_room_takes_no_seat(room: Room, member: User) -> None:
    close_room(room_id=room.pk, actor=member)
    with pytest.raises(RoomClosed):
        add_seat(room_id=room.pk, member=member, agent_slug="scribe")


@pytest.mark.parametrize("size", [0, 8 * 1024 - 8, 8 * 1024 + 1, 100_000])
def test_a_body_comes_back_whole_whatever_its_size(db: Any, size: int) -> None:
    value = {"t": "é" * (size // 2)}
    inline, digest = bodies.pack(value)
    assert bodies.unpack(inline, digest) == value
    assert bool(digest) == (size >= 8 * 1024)


@pytest.mark.django_db(transaction=True)
def test_two_messages_at_once_start_one_run_and_leave_one_waiting() -> None:
    member = make_member()
    agent = make_agent(member)
    room = make_room(member, agent)
    barrier = threading.Barrier(4)

    def post(position: int) -> None:
        barrier.wait()
        with transaction.atomic():
            seat = lock_seat(room_id=room.pk, agent_slug=agent.slug)
            assert seat is not None
            start_run(seat=seat, member=member, text="hello", position=position)
        connection.close()

    threads = [threading.Thread(target=post, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Run.objects.count() == 1
    assert RunInput.objects.filter(run=None).count() == 3
