"""A word of the member reaches a run that is at work, at its next step, and is never lost."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest
from apps.artifacts.models import Artifact
from apps.boundary.pipeline import execute_waiting
from apps.boundary.selectors import ready_calls
from apps.boundary.services import decide_approval, stop_run
from apps.core.errors import Conflict
from apps.rooms.models import Room, RoomEvent
from apps.rooms.services import invite
from apps.runs.models import JournalEntry, Run, RunInput
from apps.runs.routing import policy_of
from apps.runs.selectors import ready_runs, waiting_inputs
from apps.runs.services import MAX_WAITING_INPUTS, start_waiting
from apps.turns import asking, steering
from apps.turns.engine import run_turn
from apps.web.services import post_message
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import make_member, make_run
from tests.turns.fake_model import FakeModel

pytestmark = pytest.mark.django_db(transaction=True)


def users_words(request: dict[str, Any]) -> list[str]:
    return [m["content"] for m in request["messages"] if m["role"] == "user"]


def while_the_model_speaks(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Do something once, between the model's first answer and its being stored."""
    listen = asking.listen
    done: list[bool] = []

    def listen_and_act(**words: Any) -> None:
        listen(**words)
        if not done:
            done.append(True)
            act()

    monkeypatch.setattr(asking, "listen", listen_and_act)


def test_a_word_given_while_the_model_speaks_is_read_at_the_next_step(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.calls(("list_available_agents", {}))
    model.says("Blue, then.")
    run = make_run(room, agent, member, "Which colour?")
    while_the_model_speaks(
        monkeypatch,
        lambda: post_message(room_id=room.pk, member=member, text="Make it blue", steer=True),
    )
    run_turn(run_id=run.pk)
    assert users_words(model.asked[0])[-1] == "Which colour?"
    assert users_words(model.asked[1])[-1] == "Make it blue"
    assert RoomEvent.objects.get(kind="run.steered").data["run"] == str(run.pk)
    assert RunInput.objects.get(steer=True).run == run
    assert list(
        JournalEntry.objects.filter(run=run, kind="input").values_list("sequence", flat=True)
    ) == [1, 3]
    run.refresh_from_db()
    assert run.outcome == "completed"
    assert Run.objects.count() == 1


def test_a_word_that_comes_with_the_last_answer_keeps_the_run_going(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.says("It is red.")
    model.says("Now it is blue.")
    run = make_run(room, agent, member, "Which colour?")
    while_the_model_speaks(
        monkeypatch,
        lambda: post_message(room_id=room.pk, member=member, text="Make it blue", steer=True),
    )
    run_turn(run_id=run.pk)
    said = RoomEvent.objects.filter(kind="message.posted", data__author__kind="agent")
    assert [event.data["text"] for event in said] == ["It is red.", "Now it is blue."]
    run.refresh_from_db()
    assert run.outcome == "completed"


def test_a_word_for_a_run_that_waits_is_read_when_it_goes_on(
    room: Room, agent: Agent, member: User, model: FakeModel, tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    offer(monkeypatch, outside_tool(Letters(tmp_path / "letters").handler))
    model.calls(("send_letter", {"to": "anna"}))
    model.says("To bob as well, then.")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    posted = post_message(room_id=room.pk, member=member, text="And to bob", steer=True)
    assert (posted.queued, posted.steers) == (True, True)
    asked = ApprovalRequest.objects.get()
    decide_approval(
        approval_id=asked.pk, member=member, approve=True, arguments_digest=asked.arguments_digest
    )
    for ident in list(ready_calls(10)):
        execute_waiting(call_id=ident, executor="worker")
    for ident in list(ready_runs(10)):
        run_turn(run_id=ident)
    assert users_words(model.asked[1])[-1] == "And to bob"


def test_a_run_that_ends_first_leaves_the_word_to_the_next(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    run = make_run(room, agent, member)
    post_message(room_id=room.pk, member=member, text="Still there?", steer=True)
    stop_run(run_id=run.pk, member=member)
    assert model.asked == []
    model.says("Yes.")
    for ident in list(waiting_inputs(10)):
        start_waiting(input_id=ident)
    for ident in list(ready_runs(10)):
        run_turn(run_id=ident)
    assert users_words(model.asked[0])[-1] == "Still there?"


def test_without_asking_for_it_a_message_waits_behind_the_run(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    make_run(room, agent, member)
    posted = post_message(room_id=room.pk, member=member, text="Later")
    assert (posted.queued, posted.steers) == (True, False)
    assert not RunInput.objects.filter(steer=True).exists()


def test_nobody_steers_what_works_for_another(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    guest = make_member("tomas")
    invite(room_id=room.pk, inviter=member, username="tomas")
    model.says("For Mara.")
    run = make_run(room, agent, member)
    posted = post_message(room_id=room.pk, member=guest, text="Do mine instead", steer=True)
    assert (posted.queued, posted.steers) == (True, False)
    run_turn(run_id=run.pk)
    assert "Do mine instead" not in str(model.asked[0])


def test_where_nothing_is_under_way_a_steering_word_starts_a_run(
    room: Room, agent: Agent, member: User
) -> None:
    posted = post_message(room_id=room.pk, member=member, text="Hello", steer=True)
    assert posted.run is not None
    assert (posted.queued, posted.steers) == (False, False)


def test_a_run_takes_in_only_so_many_words(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steering, "MAX_ADMITTED", 2)
    run = make_run(room, agent, member)
    for number in range(3):
        post_message(room_id=room.pk, member=member, text=f"Word {number}", steer=True)
    model.says("Two of three.")
    run_turn(run_id=run.pk)
    assert users_words(model.asked[0])[-2:] == ["Word 0", "Word 1"]
    assert list(RunInput.objects.filter(run=None).values_list("text", flat=True)) == ["Word 2"]
    run.refresh_from_db()
    assert run.outcome == "completed"
    assert list(waiting_inputs(10)) != []


def test_words_that_wait_are_bounded(room: Room, agent: Agent, member: User) -> None:
    make_run(room, agent, member)
    for number in range(MAX_WAITING_INPUTS):
        post_message(room_id=room.pk, member=member, text=f"Word {number}", steer=True)
    with pytest.raises(Conflict):
        post_message(room_id=room.pk, member=member, text="One too many", steer=True)


def test_a_steering_word_may_demand_a_tool(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.says("I am done.")
    model.calls(("list_available_agents", {}))
    model.says("There are none besides me.")
    run = make_run(room, agent, member)
    while_the_model_speaks(
        monkeypatch,
        lambda: post_message(
            room_id=room.pk, member=member, text="You must call list_available_agents", steer=True
        ),
    )
    run_turn(run_id=run.pk)
    shown = [[tool["function"]["name"] for tool in asked["tools"]] for asked in model.asked]
    assert shown[1] == ["list_available_agents"]
    assert len(shown[0]) == len(shown[2]) > 1


def test_the_api_steers(room: Room, agent: Agent, member: User) -> None:
    from rest_framework.test import APIClient

    make_run(room, agent, member)
    client = APIClient()
    client.force_authenticate(member)
    answer = client.post(
        f"/api/v1/rooms/{room.pk}/messages",
        {"text": "Make it blue", "steer": True},
        format="json",
        headers={"Idempotency-Key": "steer-1"},
    )
    assert answer.status_code == 202
    assert answer.json()["steers"] is True
    wrong = client.post(
        f"/api/v1/rooms/{room.pk}/messages",
        {"text": "x", "steer": "sideways"},
        format="json",
        headers={"Idempotency-Key": "steer-2"},
    )
    assert wrong.status_code == 422


# --- wishes for changes, which the server routes


def shown(request: dict[str, Any]) -> list[str]:
    return [one["function"]["name"] for one in request["tools"]]


@pytest.fixture
def plan(room: Room, agent: Agent, member: User, model: FakeModel) -> Artifact:
    """An artifact of the member, made by an earlier run."""
    model.calls(("create_artifact", {"title": "Plan", "kind": "text", "body": "Long."}))
    model.says("Done.")
    run_turn(run_id=make_run(room, agent, member, "Write a plan").pk)
    model.asked.clear()
    return Artifact.objects.get()


def test_a_wish_for_a_change_goes_before_the_members_own_words_and_is_met_by_an_ordinary_call(
    room: Room, member: User, plan: Artifact, model: FakeModel
) -> None:
    change = {"artifact_id": str(plan.pk), "expected_version": 1, "body": "Short."}
    model.calls(("update_artifact", change))
    model.says("It is shorter now.")
    posted = post_message(
        room_id=room.pk, member=member, text="You must call search_about.", about=plan.pk
    )
    assert posted.run is not None
    run_turn(run_id=posted.run.pk)
    # First among several: nothing is bound, and nothing that the words named is.
    assert shown(model.asked[0])[0] == "update_artifact"
    assert len(shown(model.asked[0])) > 3
    wish, told = users_words(model.asked[0])[-2:]
    assert wish == "You must call search_about."
    assert told.startswith("[Kaizen] They ask for this as a change of the artifact")
    assert str(plan.pk) in told
    assert "update_artifact" not in shown(model.asked[1])[:1]
    plan.refresh_from_db()
    assert plan.head == 2


def test_a_route_to_a_tool_that_the_run_was_not_given_shows_nothing_more(
    room: Room, agent: Agent, member: User, plan: Artifact, model: FakeModel
) -> None:
    posted = post_message(room_id=room.pk, member=member, text="Shorter", about=plan.pk)
    Agent.objects.filter(pk=agent.pk).update(ceiling=["docs.read"])
    model.says("I cannot.")
    assert posted.run is not None
    run_turn(run_id=posted.run.pk)
    assert shown(model.asked[0]) == ["search_about"]


def test_a_wish_steers_a_run_and_its_route_ends_with_it(
    room: Room,
    agent: Agent,
    member: User,
    plan: Artifact,
    model: FakeModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model.calls(("list_available_agents", {}))
    model.says("Shorter, then.")
    run = make_run(room, agent, member, "Who is here?")
    while_the_model_speaks(
        monkeypatch,
        lambda: post_message(
            room_id=room.pk, member=member, text="Shorter", steer=True, about=plan.pk
        ),
    )
    run_turn(run_id=run.pk)
    assert shown(model.asked[0])[0] != "update_artifact"
    assert shown(model.asked[1])[0] == "update_artifact"
    run.refresh_from_db()
    given = RunInput(room_id=room.pk, agent=agent, member=member, text="Thanks", position=9)
    assert run.policy["routed"] == "update_artifact"
    assert "routed" not in policy_of(given, run.policy)
