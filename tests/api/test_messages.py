"""What is said in a room reaches the agent that it names, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.services import change_agent, disable_agent
from apps.rooms.models import Room, RoomEvent
from apps.runs.models import Run, RunInput
from apps.runs.services import MAX_WAITING_INPUTS, add_seat, remove_seat
from tests.factories.clients import problem
from tests.factories.rooms import make_agent, make_room


def say(client: APIClient, room: Room, text: Any, **more: Any) -> Any:
    return client.post(f"/api/v1/rooms/{room.pk}/messages", {"text": text, **more})


def test_the_only_agent_answers(as_tomas: APIClient, tomas: User, agent: Agent, room: Room) -> None:
    response = say(as_tomas, room, "Hello there")
    assert response.status_code == 202
    body = response.json()
    run = Run.objects.get(pk=body["run"])
    assert (run.agent, run.member, body["queued"]) == (agent, tomas, False)
    event = RoomEvent.objects.get(room=room, position=body["position"])
    assert event.kind == "message.posted"
    assert event.actor == tomas.key
    assert event.data == {
        "author": {
            "kind": "user",
            "id": tomas.pk,
            "username": tomas.username,
            "name": tomas.name,
        },
        "text": "Hello there",
    }
    # The message comes before the run that it starts.
    started = RoomEvent.objects.get(room=room, kind="run.started")
    assert started.position == body["position"] + 1


def test_a_second_message_waits_in_line(as_mara: APIClient, room: Room) -> None:
    assert say(as_mara, room, "One").json()["queued"] is False
    body = say(as_mara, room, "Two").json()
    assert (body["run"], body["queued"]) == (None, True)
    assert Run.objects.count() == 1


def test_too_long_a_line_is_refused_whole(as_mara: APIClient, room: Room) -> None:
    for number in range(MAX_WAITING_INPUTS + 1):
        assert say(as_mara, room, f"{number}").status_code == 202
    before = RoomEvent.objects.count()
    problem(say(as_mara, room, "One more"), 409, "conflict")
    # Nothing of a refused message stays: neither event nor input.
    assert RoomEvent.objects.count() == before
    assert RunInput.objects.filter(text="One more").count() == 0


def test_without_an_agent_a_message_is_only_a_message(as_mara: APIClient, mara: User) -> None:
    body = say(as_mara, make_room(mara), "Anyone?").json()
    assert (body["run"], body["queued"]) == (None, False)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("Hello both", None),
        ("@ada please", "ada"),
        ("please @ada-two, now", "ada-two"),
        ("(@Ada)", "ada"),
        ("@ADA", "ada"),
        ("@Second Ada: go", "ada-two"),
        ("@ada, not @ada-two", "ada"),
        ("@nobody and @ada", "ada"),
        ("@adam", None),
        ("@ada-three", None),
        ("mail to me@ada", None),
        ("@@ada", None),
        ("@", None),
    ],
)
def test_of_several_the_named_one_answers(
    as_mara: APIClient, mara: User, text: str, chosen: str | None
) -> None:
    room = make_room(mara)
    for slug, name in (("ada", "Ada"), ("ada-two", "Second Ada")):
        agent = make_agent(mara, slug=slug)
        change_agent(agent_id=agent.pk, actor=mara, changes={"name": name})
        add_seat(room_id=room.pk, member=mara, agent_slug=slug)
    body = say(as_mara, room, text).json()
    found = None if body["run"] is None else Run.objects.get(pk=body["run"]).agent.slug
    assert found == chosen


@pytest.mark.parametrize("order", [("ada", "mallory"), ("mallory", "ada")])
def test_no_name_takes_the_place_of_anothers_slug(
    as_mara: APIClient, mara: User, order: tuple[str, str]
) -> None:
    room = make_room(mara)
    for slug in order:
        agent = make_agent(mara, slug=slug)
        change_agent(agent_id=agent.pk, actor=mara, changes={"name": "ADA"})
        add_seat(room_id=room.pk, member=mara, agent_slug=slug)
    body = say(as_mara, room, "@ada please").json()
    assert Run.objects.get(pk=body["run"]).agent.slug == "ada"


@pytest.mark.parametrize("text", ["", "   \n", "x" * 20_001, "a\x00b", 7, None, ["x"]])
def test_a_message_has_words_and_an_end(as_mara: APIClient, room: Room, text: Any) -> None:
    body = problem(say(as_mara, room, text), 422, "invalid")
    assert body["field"] == "text"
    assert not Run.objects.exists()


def test_the_longest_message_is_taken_as_it_is(as_mara: APIClient, room: Room) -> None:
    text = " " + "ü" * 19_998 + "\n"
    position = say(as_mara, room, text).json()["position"]
    assert RoomEvent.objects.get(room=room, position=position).data["text"] == text


def test_who_speaks_is_never_taken_from_the_body(as_mara: APIClient, room: Room) -> None:
    problem(say(as_mara, room, "Hello", author=1), 422, "invalid")
    problem(say(as_mara, room, "Hello", agent="other"), 422, "invalid")


def test_an_agent_that_is_off_is_not_spoken_to(
    as_mara: APIClient, mara: User, agent: Agent, room: Room
) -> None:
    disable_agent(agent_id=agent.pk, actor=mara)
    body = say(as_mara, room, "Hello").json()
    assert (body["run"], body["queued"]) == (None, False)
    problem(say(as_mara, room, f"@{agent.slug} hello"), 409, "agent_disabled")


def test_an_agent_that_has_left_is_not_reached(
    as_mara: APIClient, mara: User, agent: Agent, room: Room
) -> None:
    remove_seat(room_id=room.pk, member=mara, agent_slug=agent.slug)
    assert say(as_mara, room, f"@{agent.slug} hello").json()["run"] is None


def test_a_repeat_says_it_once(as_mara: APIClient, room: Room) -> None:
    url = f"/api/v1/rooms/{room.pk}/messages"
    answers = [
        as_mara.post(url, {"text": "Hello"}, headers={"idempotency-key": "m1"}) for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].json() == answers[1].json()
    assert RoomEvent.objects.filter(kind="message.posted").count() == 1
    assert Run.objects.count() == 1
