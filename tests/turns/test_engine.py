"""How a turn goes, with a model behind a real HTTP endpoint."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.artifacts.models import Artifact
from apps.boundary.services import stop_run
from apps.rooms.models import Room, RoomEvent
from apps.runs.claims import claim_run
from apps.runs.models import Call, JournalEntry, Run
from apps.turns import pulse
from apps.turns.engine import run_turn
from tests.factories.rooms import make_run
from tests.turns.fake_model import FakeModel

NOTE = {"title": "A note", "kind": "markdown", "body": "# Hello\n" + "word " * 40}


def last_message(room: Room) -> str:
    event = RoomEvent.objects.filter(room=room, kind="message.posted").last()
    assert event is not None
    return str(event.data["text"])


def test_an_answer_without_calls_is_the_last_word(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.says("Good morning, Mara.")
    run = make_run(room, agent, member, "Say good morning")
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert (run.state, run.outcome) == ("finished", "completed")
    assert last_message(room) == "Good morning, Mara."
    asked = model.asked[0]
    assert asked["messages"][-1] == {"role": "user", "content": "Say good morning"}
    assert {tool["function"]["name"] for tool in asked["tools"]} == {
        "create_artifact",
        "update_artifact",
        "read_artifact",
        "begin_artifact",
        "append_artifact",
        "finalize_artifact",
        "discard_artifact",
        "list_available_agents",
        "invoke_agent",
        "search_about",
    }


def test_calls_cross_and_their_results_go_back_to_the_model(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(("create_artifact", NOTE), ("list_available_agents", {}))
    model.says("Saved.")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    told = [m for m in model.asked[1]["messages"] if m["role"] == "tool"]
    assert [json.loads(message["content"])["outcome"] for message in told] == ["ok", "ok"]
    proposed = model.asked[1]["messages"][-3]["tool_calls"]
    assert json.loads(proposed[0]["function"]["arguments"]) == NOTE
    assert Artifact.objects.get().title == "A note"


def test_a_refused_call_is_told_to_the_model_and_the_turn_goes_on(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(("create_artifact", '{"title": '))
    model.calls(("no_such_tool", {}))
    model.says("It did not work.")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert list(Call.objects.values_list("outcome", "reason").order_by("step")) == [
        ("refused", "invalid_arguments"),
        ("refused", "outside_catalog"),
    ]
    run.refresh_from_db()
    assert run.outcome == "completed"


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_deterministic_provider_error_ends_the_run_without_a_replay(
    room: Room, agent: Agent, member: User, model: FakeModel, status: int
) -> None:
    model.fails(status)
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert (run.state, run.outcome) == ("finished", "failed")
    assert len(model.asked) == 1
    assert "SECRET-PAYLOAD" not in run.explanation
    assert str(status) in run.explanation


def test_a_transient_provider_error_is_tried_again_a_bounded_number_of_times(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    for status in (500, 429, 503, 502):
        model.fails(status)
    run = make_run(room, agent, member)
    for attempt in range(1, 4):
        run_turn(run_id=run.pk)
        run.refresh_from_db()
        assert (run.state, run.provider_failures) == ("queued", attempt)
        run_turn(run_id=run.pk)  # not due yet: the same bell rung again changes nothing
        Run.objects.filter(pk=run.pk).update(retry_at="2020-01-01T00:00Z")
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert (run.state, run.outcome, len(model.asked)) == ("finished", "failed", 4)


def test_an_answer_that_broke_off_is_not_stored_and_is_asked_for_again(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.breaks_off("Half a thou")
    model.says("A whole thought.")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert JournalEntry.objects.filter(run=run, kind="assistant").count() == 0
    Run.objects.filter(pk=run.pk).update(retry_at=None)
    run_turn(run_id=run.pk)
    assert last_message(room) == "A whole thought."


def test_a_turn_goes_on_from_rows_alone_after_its_worker_died(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: Any
) -> None:
    """The worker dies between storing the calls and letting them cross."""
    from apps.turns import calls

    class Died(BaseException):
        pass

    def die(**_: Any) -> None:
        raise Died

    model.calls(("create_artifact", NOTE))
    model.says("Saved.")
    run = make_run(room, agent, member)
    with monkeypatch.context() as patched:
        patched.setattr(calls, "cross", die)
        with pytest.raises(Died):
            run_turn(run_id=run.pk)
    assert Call.objects.get().state == "proposed"
    run_turn(run_id=run.pk)  # the claim still holds: nothing happens
    assert Call.objects.get().state == "proposed"
    Run.objects.filter(pk=run.pk).update(claim_expires_at="2020-01-01T00:00Z")
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert (run.outcome, run.fence, len(model.asked)) == ("completed", 2, 2)
    assert Artifact.objects.count() == 1


def test_stop_ends_a_turn_while_the_model_speaks_and_keeps_nothing(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(("create_artifact", {**NOTE, "body": "slow " * 400}), pause=0.05)
    run = make_run(room, agent, member)
    turn = threading.Thread(target=run_turn, kwargs={"run_id": run.pk})
    turn.start()
    time.sleep(1.0)
    stop_run(run_id=run.pk, member=member)
    turn.join(10)
    assert not turn.is_alive()
    run.refresh_from_db()
    assert (run.state, run.outcome) == ("finished", "stopped")
    assert not Artifact.objects.exists()
    assert not Call.objects.exists()


def test_a_process_that_ends_gives_its_run_back(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(("create_artifact", {**NOTE, "body": "slow " * 400}), pause=0.05)
    model.says("Done.")
    run = make_run(room, agent, member)
    turn = threading.Thread(target=run_turn, kwargs={"run_id": run.pk})
    turn.start()
    time.sleep(0.7)
    pulse.leaving.set()
    try:
        turn.join(5)
        assert not turn.is_alive()
    finally:
        pulse.leaving.clear()
    run.refresh_from_db()
    assert (run.state, run.claimed_by) == ("queued", "")
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert run.outcome == "completed"


def test_two_workers_never_hold_one_run(room: Room, agent: Agent, member: User) -> None:
    run = make_run(room, agent, member)
    fences: list[int | None] = []
    barrier = threading.Barrier(8)

    def claim(name: str) -> None:
        from django.db import connection

        barrier.wait()
        fences.append(claim_run(run_id=run.pk, worker=name))
        connection.close()

    threads = [threading.Thread(target=claim, args=(f"w{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [fence for fence in fences if fence is not None] == [1]


def test_every_request_to_a_model_carries_the_correlation_id_of_its_run(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.calls(("search_about", {"query": "receipt"}))
    model.fails(503)
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert model.correlation_ids == [run.correlation_id] * 2


def test_a_second_message_waits_for_the_first_run(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    from django.db import transaction

    from apps.runs.models import RunInput
    from apps.runs.selectors import waiting_inputs
    from apps.runs.services import lock_seat, start_run, start_waiting

    model.says("First.")
    model.says("Second.")
    first = make_run(room, agent, member, "one")
    with transaction.atomic():
        seat = lock_seat(room_id=room.pk, agent_slug=agent.slug)
        assert seat is not None
        assert start_run(seat=seat, member=member, text="two", position=2).queued
    run_turn(run_id=first.pk)
    waiting = list(waiting_inputs(10))
    assert len(waiting) == 1
    start_waiting(input_id=waiting[0])
    start_waiting(input_id=waiting[0])
    second = RunInput.objects.get(text="two").run
    assert second is not None
    run_turn(run_id=second.pk)
    assert last_message(room) == "Second."
    assert Run.objects.count() == 2
