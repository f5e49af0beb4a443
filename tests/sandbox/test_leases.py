"""One call at a time works in a workspace, and a holder that dies leaves nothing to repair."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.core.deadlines import Deadline
from apps.core.queue import queues, sweep
from apps.domain.tooling import CallState
from apps.rooms.models import Room
from apps.runs.models import Call
from apps.sandbox import leases
from apps.sandbox.contents import contents, take_back
from apps.sandbox.errors import LeaseLost, WorkspaceBusy, WorkspaceNotFound
from apps.sandbox.leases import (
    acquire,
    demand,
    hold,
    hold_until_commit,
    left_behind,
    name_kernel,
    release,
    release_left_behind,
    this_node,
)
from apps.sandbox.models import Lease as LeaseRow
from apps.sandbox.models import Workspace
from apps.sandbox.spec import WorkChanges, WorkFile
from tests.factories.rooms import claimed_run, make_agent, make_member, make_room, proposed
from tests.sandbox.processes import another_process

pytestmark = pytest.mark.django_db
REAL = pytest.mark.django_db(transaction=True)
"""Others can only see what is committed."""

SOON = 30.0


@pytest.fixture
def member() -> User:
    return make_member()


@pytest.fixture
def agent(member: User) -> Agent:
    return make_agent(member)


@pytest.fixture
def room(member: User, agent: Agent) -> Room:
    return make_room(member, agent)


@pytest.fixture
def call(member: User, agent: Agent, room: Room) -> Call:
    """A call that somebody is executing."""
    note = {"title": "A note", "kind": "markdown", "body": "x"}
    call: Call = proposed(claimed_run(room, agent, member), "create_artifact", note)
    mark(call, CallState.DISPATCHED)
    return call


def mark(call: Call, state: CallState, outcome: str = "") -> None:
    settled = Now() if state is CallState.SETTLED else None
    Call.objects.filter(pk=call.pk).update(
        state=state.value, outcome=outcome, dispatched_at=Now(), settled_at=settled
    )


def take(member: User, room: Room, call: Call | None = None, **ways: Any) -> leases.Lease:
    return acquire(
        owner=member,
        room_id=room.pk,
        call_id=call and call.pk,
        deadline=Deadline.after(SOON),
        **{"wait": 0.0, **ways},
    )


def write(lease: leases.Lease, text: str, **ways: Any) -> None:
    take_back(lease, WorkChanges(changed=(WorkFile("a", text.encode()),)), **ways)


def text_of(workspace: Workspace) -> str:
    return "".join(file.content.decode() for file in contents(workspace))


def let_time_pass(room: Room) -> None:
    LeaseRow.objects.filter(workspace__room=room).update(expires_at=Now() - timedelta(seconds=1))


def in_threads(*works: Callable[[], None]) -> None:
    def close(work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            connection.close()

    threads = [threading.Thread(target=close, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_a_workspace_is_held_by_one_call_and_the_next_hears_that_it_is_busy(
    member: User, room: Room, call: Call
) -> None:
    lease = take(member, room, call)
    assert (lease.call_id, lease.node) == (call.pk, this_node())
    with pytest.raises(WorkspaceBusy, match="try again"):
        take(member, room)
    release(lease)
    assert take(member, room).fence == lease.fence + 1


@REAL
def test_whoever_waits_gets_it_as_soon_as_it_is_released(member: User, room: Room) -> None:
    lease = take(member, room)
    got: list[leases.Lease] = []
    waits = threading.Event()

    def wait() -> None:
        got.append(take(member, room, wait=SOON, gave_up=lambda: bool(waits.set())))

    def let_go() -> None:
        assert waits.wait(SOON)
        release(lease)

    in_threads(wait, let_go)
    assert [one.fence for one in got] == [lease.fence + 1]


def test_nobody_waits_longer_than_the_call_may_take(member: User, room: Room) -> None:
    take(member, room)
    with pytest.raises(WorkspaceBusy):
        acquire(owner=member, room_id=room.pk, call_id=None, deadline=Deadline.after(0), wait=SOON)


def test_a_call_that_is_not_wanted_any_more_stops_waiting(member: User, room: Room) -> None:
    take(member, room)
    with pytest.raises(WorkspaceBusy):
        take(member, room, wait=SOON, gave_up=lambda: True)


def test_each_member_has_a_workspace_of_their_own_in_each_room(member: User, room: Room) -> None:
    guest = make_member()
    shared = make_room(member, None, guest)
    held = {
        take(*pair).workspace.pk for pair in ((member, room), (member, shared), (guest, shared))
    }
    assert len(held) == 3
    with pytest.raises(WorkspaceNotFound):
        take(guest, room)


@REAL
def test_of_many_that_race_each_works_alone(member: User, room: Room) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        with hold(
            owner=member, room_id=room.pk, call_id=None, deadline=Deadline.after(60), wait=60
        ) as lease:
            inside.append(1)
            most.append(len(inside))
            write(lease, text_of(lease.workspace) + "x")
            inside.pop()

    in_threads(*[work] * 8)
    assert set(most) == {1}
    workspace = Workspace.objects.get(owner=member, room=room)
    assert text_of(workspace) == "x" * 8
    assert LeaseRow.objects.get(pk=workspace.pk).fence == 8


@REAL
def test_of_many_that_meet_in_transactions_each_works_alone(member: User, room: Room) -> None:
    def work() -> None:
        for _ in range(50):
            try:
                with transaction.atomic():
                    lease = hold_until_commit(
                        owner=member, room_id=room.pk, deadline=Deadline.after(60)
                    )
                    write(lease, text_of(lease.workspace) + "x")
                    return
            except WorkspaceBusy:
                continue
        raise AssertionError("It never got its turn.")

    in_threads(*[work] * 6)
    assert text_of(Workspace.objects.get(owner=member, room=room)) == "x" * 6


@REAL
def test_a_transaction_holds_against_those_who_commit_and_they_against_it(
    member: User, room: Room
) -> None:
    lease = take(member, room)
    with pytest.raises(WorkspaceBusy), transaction.atomic():
        hold_until_commit(owner=member, room_id=room.pk, deadline=Deadline.after(0.05))
    release(lease)
    held, tried = threading.Event(), threading.Event()
    refused: list[str] = []

    def holder() -> None:
        with transaction.atomic():
            hold_until_commit(owner=member, room_id=room.pk, deadline=Deadline.after(SOON))
            held.set()
            assert tried.wait(SOON)

    def other() -> None:
        assert held.wait(SOON)
        try:
            take(member, room)
        except WorkspaceBusy as busy:
            refused.append(busy.code)
        tried.set()

    in_threads(holder, other)
    assert refused == ["workspace_busy"]
    release(take(member, room))


@REAL
def test_without_a_transaction_nothing_is_held_until_its_end(member: User, room: Room) -> None:
    with pytest.raises(LookupError):
        hold_until_commit(owner=member, room_id=room.pk, deadline=Deadline.after(1))


def test_a_holder_whose_time_is_over_can_write_nothing_more(member: User, room: Room) -> None:
    late = take(member, room)
    let_time_pass(room)
    now = take(member, room)
    write(now, "of the second")
    for refused in (lambda: write(late, "of the first"), lambda: name_kernel(late, "n1")):
        with pytest.raises(LeaseLost):
            refused()
    release(late)
    with pytest.raises(WorkspaceBusy):
        take(member, room)
    assert text_of(now.workspace) == "of the second"


def test_a_short_edit_fences_off_a_holder_whose_time_is_over(member: User, room: Room) -> None:
    late = take(member, room)
    let_time_pass(room)
    with transaction.atomic():
        write(
            hold_until_commit(owner=member, room_id=room.pk, deadline=Deadline.after(1)), "edited"
        )
    with pytest.raises(LeaseLost):
        write(late, "late")
    assert text_of(late.workspace) == "edited"


def test_a_settled_call_holds_nothing(member: User, room: Room, call: Call) -> None:
    take(member, room, call)
    mark(call, CallState.SETTLED, "ambiguous")
    take(member, room)


@REAL
def test_a_killed_holder_is_recovered_from_and_its_work_is_not_half_there(
    member: User, room: Room, call: Call
) -> None:
    write(take(member, room, call), "before", release_after=True)
    program = f"""
from django.db import transaction
from apps.accounts.models import User
from apps.core.deadlines import Deadline
from apps.sandbox.contents import take_back
from apps.sandbox.leases import acquire
from apps.sandbox.spec import WorkChanges, WorkFile
lease = acquire(
    owner=User.objects.get(pk={member.pk!r}), room_id="{room.pk}", call_id="{call.pk}",
    deadline=Deadline.after(60),
)
print("held", flush=True)
input()
with transaction.atomic():
    take_back(lease, WorkChanges(changed=(WorkFile("a", b"half"), WorkFile("b", b"half"))))
    print("written", flush=True)
    input()
"""
    for steps in (["held"], ["held", "written"]):
        with another_process(program) as holder:
            assert holder.stdout is not None
            assert holder.stdin is not None
            for step in steps:
                assert holder.stdout.readline() == f"{step}\n"
                if step != steps[-1]:
                    print(file=holder.stdin, flush=True)
            with pytest.raises(WorkspaceBusy):
                take(member, room)
            holder.kill()
            holder.wait(30)
        # The call is settled once its executor has been silent for long enough.
        mark(call, CallState.SETTLED, "ambiguous")
        lease = take(member, room, wait=SOON)
        assert text_of(lease.workspace) == "before"
        release(lease)
        mark(call, CallState.DISPATCHED)


def test_the_sweep_releases_what_holders_left_and_nothing_else(
    member: User, room: Room, call: Call
) -> None:
    lease = take(member, room, call)
    assert list(left_behind(10)) == []
    release_left_behind(workspace_id=lease.workspace.pk)
    demand_held(member, room)
    mark(call, CallState.SETTLED, "abandoned")
    assert list(left_behind(10)) == [lease.workspace.pk]
    assert "workspace_leases" in {queue.name for queue in queues()}
    assert sweep()["workspace_leases"] == 1
    release_left_behind(workspace_id=lease.workspace.pk)
    row = LeaseRow.objects.get(pk=lease.workspace.pk)
    assert (row.call_id, row.expires_at, row.taken_at) == (None, None, None)
    assert list(left_behind(10)) == []


def demand_held(member: User, room: Room) -> None:
    with pytest.raises(WorkspaceBusy):
        take(member, room)


def test_a_lease_names_its_node_and_where_a_program_lives_on(member: User, room: Room) -> None:
    lease = take(member, room)
    name_kernel(lease, "node-7")
    release(lease)
    row = LeaseRow.objects.get(pk=lease.workspace.pk)
    assert (row.node, row.kernel_node) == (this_node(), "node-7")
    again = take(member, room)
    assert again.kernel_node == "node-7"
    name_kernel(again, "")
    release(again)
    assert take(member, room).kernel_node == ""


def test_a_deleted_workspace_takes_nothing_back(member: User, room: Room) -> None:
    lease = take(member, room)
    Workspace.objects.filter(pk=lease.workspace.pk).delete()
    with pytest.raises(LeaseLost):
        write(lease, "late")
    with pytest.raises(LeaseLost), transaction.atomic():
        demand(lease)
