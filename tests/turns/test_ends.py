"""However a turn breaks, and whatever it loses meanwhile, it has an honest end in bounded time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.services import disable_agent
from apps.boundary.services import stop_run
from apps.rooms.models import Room, RoomEvent
from apps.rooms.services import close_room, invite, remove_participant
from apps.runs.models import Call, JournalEntry, Run
from apps.runs.selectors import ready_runs, waiting_inputs
from apps.runs.services import start_waiting
from apps.turns import asking, calls, pulse
from apps.turns.engine import MAX_BREAKS, run_turn
from apps.web.services import post_message
from tests.factories.rooms import make_member, make_run
from tests.turns.fake_model import FakeModel

pytestmark = pytest.mark.django_db(transaction=True)

PAST = "2020-01-01T00:00Z"
NOTE = {"title": "A note", "kind": "markdown", "body": "# Hello"}


def fall_silent(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(claim_expires_at=PAST)


def agents_words() -> list[str]:
    said = RoomEvent.objects.filter(kind="message.posted", data__author__kind="agent")
    return [event.data["text"] for event in said]


def test_a_turn_that_always_breaks_is_ended_with_a_reference(
    room: Room, agent: Agent, member: User, monkeypatch: Any
) -> None:
    def break_off(_: Run) -> Any:
        raise ValueError("SECRET")

    monkeypatch.setattr(asking, "read_conversation", break_off)
    run = make_run(room, agent, member)
    for _ in range(MAX_BREAKS):
        assert list(ready_runs(10)) == [run.pk]
        with pytest.raises(ValueError, match="SECRET"):
            run_turn(run_id=run.pk)
        fall_silent(run)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert (run.state, run.outcome) == ("finished", "failed")
    assert run.correlation_id in run.explanation
    assert "SECRET" not in run.explanation


def test_a_turn_that_got_somewhere_starts_its_count_again(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.says("Done.")
    run = make_run(room, agent, member)
    Run.objects.update(state="running", breaks=MAX_BREAKS - 2)
    fall_silent(run)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert (run.outcome, run.breaks) == ("completed", 0)


def test_no_open_call_outlives_a_run_that_is_ended(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: Any
) -> None:
    def break_off(**_: Any) -> Any:
        raise ValueError("It broke.")

    monkeypatch.setattr(calls, "cross", break_off)
    model.calls(("create_artifact", NOTE))
    run = make_run(room, agent, member)
    for _ in range(MAX_BREAKS):
        with pytest.raises(ValueError, match="It broke"):
            run_turn(run_id=run.pk)
        fall_silent(run)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert run.outcome == "failed"
    assert Call.objects.get().outcome == "stopped"


def test_a_stop_before_the_turn_begins_asks_no_model(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    run = make_run(room, agent, member)
    Run.objects.update(state="running")
    stop_run(run_id=run.pk, member=member)
    fall_silent(run)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert (run.outcome, model.asked) == ("stopped", [])


@pytest.mark.parametrize("way", ["stop", "shutdown"])
def test_the_silence_of_a_model_holds_nobody_up(
    room: Room, agent: Agent, member: User, model: FakeModel, way: str
) -> None:
    model.keeps_silent(8)
    run = make_run(room, agent, member)
    turn = threading.Thread(target=run_turn, kwargs={"run_id": run.pk})
    turn.start()
    wait_until(lambda: bool(model.asked))
    try:
        if way == "stop":
            stop_run(run_id=run.pk, member=member)
        else:
            pulse.leaving.set()
        turn.join(4)
        assert not turn.is_alive()
    finally:
        pulse.leaving.clear()
        turn.join(20)
    run.refresh_from_db()
    assert (run.state, run.outcome) == (
        ("finished", "stopped") if way == "stop" else ("queued", "")
    )


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_an_answer_that_comes_after_a_stop_is_not_stored(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: Any
) -> None:
    """The stop falls into the moment between two looks at the row."""
    model.says("Too late.")
    run = make_run(room, agent, member)
    listen = asking.listen

    def stopped_meanwhile(**words: Any) -> None:
        listen(**words)
        stop_run(run_id=run.pk, member=member)

    monkeypatch.setattr(asking, "listen", stopped_meanwhile)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert (run.outcome, agents_words()) == ("stopped", [])
    assert not JournalEntry.objects.filter(kind="assistant").exists()


@pytest.mark.parametrize("loss", ["closed", "removed", "deactivated"])
@pytest.mark.parametrize("moment", ["before", "meanwhile"])
def test_a_run_that_lost_its_place_says_nothing_more(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: Any,
    loss: str, moment: str,
) -> None:  # fmt: skip
    guest = make_member("tomas")
    invite(room_id=room.pk, inviter=member, username="tomas")
    model.says("Nobody should read this.")
    run = make_run(room, agent, guest)

    def lose() -> None:
        if loss == "closed":
            close_room(room_id=room.pk, actor=member)
        elif loss == "removed":
            remove_participant(room_id=room.pk, actor=member, username="tomas")
        else:
            User.objects.filter(pk=guest.pk).update(is_active=False)

    listen = asking.listen

    def lost_meanwhile(**words: Any) -> None:
        listen(**words)
        lose()

    if moment == "before":
        lose()
    else:
        monkeypatch.setattr(asking, "listen", lost_meanwhile)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert (run.state, run.outcome) == ("finished", "stopped")
    assert run.explanation
    assert agents_words() == []
    assert len(model.asked) == (0 if moment == "before" else 1)


def test_messages_that_wait_for_an_agent_switched_off_are_given_their_end(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.says("First.")
    first = post_message(room_id=room.pk, member=member, text="one").run
    assert first is not None
    assert post_message(room_id=room.pk, member=member, text="two").queued
    run_turn(run_id=first.pk)
    disable_agent(agent_id=agent.pk, actor=member)
    for ident in waiting_inputs(10):
        start_waiting(input_id=ident)
    second = Run.objects.exclude(pk=first.pk).get()
    run_turn(run_id=second.pk)
    second.refresh_from_db()
    assert (second.outcome, agents_words()) == ("stopped", ["First."])
    assert list(waiting_inputs(10)) == []
