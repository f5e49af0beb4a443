"""Many may wait for calls in one process; they share one subscription and one reader."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from apps.boundary import waiters
from apps.boundary.services import stop_run
from apps.boundary.waiters import Waiters, the_waiters
from apps.runs.models import Call
from tests.factories.questions import make_question
from tests.factories.rooms import claimed_run, make_agent, make_member, make_room

pytestmark = pytest.mark.django_db(transaction=True)


def a_waiting_call() -> Call:
    member = make_member()
    agent = make_agent(member)
    room = make_room(member, agent)
    try:
        question = make_question(claimed_run(room, agent, member))
        return Call.objects.select_related("run__member").get(pk=question.call_id)
    finally:
        connection.close()


def settle(call: Call) -> None:
    try:
        stop_run(run_id=call.run_id, member=call.run.member)
    finally:
        connection.close()


async def test_all_who_wait_for_a_call_hear_of_its_end_together() -> None:
    call = await sync_to_async(a_waiting_call)()
    room_id = str(call.run.room_id)

    async def wait() -> None:
        await the_waiters().wait(room_id=room_id, call_id=call.pk, seconds=60, member_id=1)

    waiting = [asyncio.create_task(wait()) for _ in range(20)]
    await asyncio.sleep(0.2)
    assert not any(task.done() for task in waiting)
    await sync_to_async(settle)(call)
    await asyncio.wait_for(asyncio.gather(*waiting), 20)


async def test_a_wait_for_what_has_settled_ends_without_a_bell() -> None:
    call = await sync_to_async(a_waiting_call)()
    await sync_to_async(settle)(call)
    room_id = str(call.run.room_id)
    await asyncio.wait_for(
        the_waiters().wait(room_id=room_id, call_id=call.pk, seconds=60, member_id=1), timeout=20
    )


async def test_without_redis_a_wait_ends_all_the_same(settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    call = await sync_to_async(a_waiting_call)()
    room_id = str(call.run.room_id)
    waiting = asyncio.create_task(
        Waiters().wait(room_id=room_id, call_id=call.pk, seconds=60, member_id=1)
    )
    await asyncio.sleep(0)
    await sync_to_async(settle)(call)
    await asyncio.wait_for(waiting, 20)


async def test_places_are_bounded_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiters, "MAX_WAITING", 1)
    here = Waiters()
    waiting = asyncio.create_task(
        here.wait(room_id=str(uuid.uuid4()), call_id=uuid.uuid4(), seconds=60, member_id=1)
    )
    await asyncio.sleep(0)
    assert here.full
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not here.full


async def test_one_member_takes_only_some_of_the_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiters, "MAX_OF_ONE_MEMBER", 2)
    here = Waiters()

    def waits(member: int) -> asyncio.Task[None]:
        return asyncio.create_task(
            here.wait(room_id=str(uuid.uuid4()), call_id=uuid.uuid4(), seconds=60, member_id=member)
        )

    greedy = [waits(1) for _ in range(5)]
    other = waits(2)
    # Whoever has no place is answered at once, and takes nobody else's.
    done, waiting = await asyncio.wait([*greedy, other], timeout=0.5)
    assert (len(done), len(waiting)) == (3, 3)
    assert other in waiting
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    again = waits(1)
    await asyncio.sleep(0)
    assert not again.done()
    again.cancel()
    await asyncio.wait([again])
