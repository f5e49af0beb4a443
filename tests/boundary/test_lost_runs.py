"""A run that nobody can go on with ends, and says so, whichever way it was lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest
from apps.boundary import pipeline
from apps.boundary.external import call_tool, finish_external_run, open_external_run
from apps.boundary.lost import end_lost_run, lost_runs
from apps.boundary.services import decide_approval, stop_run
from apps.core.errors import Conflict
from apps.rooms.models import Room, RoomEvent
from apps.rooms.services import close_room, remove_participant
from apps.runs.claims import fenced
from apps.runs.models import Call, Run
from apps.runs.selectors import waiting_inputs
from apps.runs.services import park_run
from apps.tools.contract import CallContext
from apps.web.services import post_message
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import claimed_run, crossed

pytestmark = pytest.mark.django_db(transaction=True)

PAST = "2020-01-01T00:00Z"

Loss = Callable[[Room, User, User], None]
LOSSES: dict[str, Loss] = {
    "closed": lambda room, owner, guest: close_room(room_id=room.pk, actor=owner) and None,
    "removed": lambda room, owner, guest: remove_participant(
        room_id=room.pk, actor=owner, username=guest.username
    ),
    "too_old": lambda room, owner, guest: Run.objects.update(deadline_at=PAST) and None,
    "deactivated": lambda room, owner, guest: (
        User.objects.filter(pk=guest.pk).update(is_active=False) and None
    ),
}


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Letters:
    letters = Letters(tmp_path / "letters")
    offer(monkeypatch, outside_tool(letters.handler))
    return letters


@pytest.fixture
def parked(room: Room, agent: Agent, guest: User, letters: Letters) -> Run:
    """A guest's run that waits for their yes."""
    run = claimed_run(room, agent, guest)
    crossed(run, "send_letter", {"to": "anna"})
    with fenced(run_id=run.pk, fence=run.fence) as locked:
        park_run(run=locked)
    return run


@pytest.fixture
def theirs(room: Room, guest: User, agent: Agent, letters: Letters) -> Run:
    """A guest's run of another runtime."""
    return open_external_run(room_id=room.pk, member=guest, agent_slug=agent.slug).run


def write_to(run: Run, whom: str = "anna") -> Call:
    return call_tool(
        run=run, name="send_letter", arguments_text=json.dumps({"to": whom}), proposal_id="1"
    ).call


def say_yes(call: Call, member: User) -> None:
    request = ApprovalRequest.objects.get(call=call)
    decide_approval(
        approval_id=request.pk,
        member=member,
        approve=True,
        arguments_digest=request.arguments_digest,
    )


def test_a_run_that_has_its_place_is_not_lost(parked: Run, theirs: Run) -> None:
    assert list(lost_runs(10)) == []
    for run in (parked, theirs):
        end_lost_run(run_id=run.pk)
        run.refresh_from_db()
        assert run.state != "finished"


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_a_run_whose_member_or_room_is_gone_does_not_block_the_agent(
    parked: Run, theirs: Run, room: Room, member: User, guest: User, letters: Letters, loss: Loss
) -> None:
    loss(room, member, guest)
    assert set(lost_runs(10)) == {parked.pk, theirs.pk}
    for run in (parked, theirs):
        end_lost_run(run_id=run.pk)
        end_lost_run(run_id=run.pk)
        run.refresh_from_db()
        assert (run.state, run.outcome) == ("finished", "stopped")
        assert run.explanation
    assert Call.objects.get().outcome == "stopped"
    assert ApprovalRequest.objects.get().state == "withdrawn"
    assert letters.sent == []
    assert list(lost_runs(10)) == []


def test_what_waited_behind_a_lost_run_gets_its_turn(
    parked: Run, room: Room, member: User, guest: User
) -> None:
    assert post_message(room_id=room.pk, member=member, text="And mine?").queued
    remove_participant(room_id=room.pk, actor=member, username=guest.username)
    end_lost_run(run_id=parked.pk)
    assert len(list(waiting_inputs(10))) == 1


def test_a_stopped_run_of_another_runtime_ends_once_its_call_has(
    theirs: Run, guest: User, monkeypatch: pytest.MonkeyPatch, letters: Letters
) -> None:
    """No worker holds such a run, so nobody else would end it."""

    def stopped_meanwhile(arguments: dict[str, Any], context: CallContext) -> Any:
        stop_run(run_id=theirs.pk, member=guest)
        assert list(lost_runs(10)) == []
        return letters.handler(arguments, context)

    offer(monkeypatch, outside_tool(stopped_meanwhile))
    call = write_to(theirs)
    say_yes(call, guest)
    pipeline.execute_waiting(call_id=call.pk, executor="worker")
    theirs.refresh_from_db()
    assert theirs.state == "running"
    assert list(lost_runs(10)) == [theirs.pk]
    end_lost_run(run_id=theirs.pk)
    theirs.refresh_from_db()
    assert (theirs.state, theirs.outcome) == ("finished", "stopped")


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
def test_another_runtime_has_no_last_word_in_a_room_that_it_lost(
    theirs: Run, room: Room, member: User, guest: User, loss: Loss
) -> None:
    loss(room, member, guest)
    with pytest.raises(Conflict):
        finish_external_run(run=theirs, text="I was here.")
    assert not RoomEvent.objects.filter(kind="message.posted").exists()


def test_an_expired_run_says_that_its_runtime_never_ended_it(theirs: Run) -> None:
    Run.objects.filter(pk=theirs.pk).update(token_expires_at=PAST)
    end_lost_run(run_id=theirs.pk)
    theirs.refresh_from_db()
    assert (theirs.outcome, theirs.token_hash) == ("failed", "")
