"""A model may send anything: the turn says so, stores nothing that cannot be stored, and ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.artifacts.models import Artifact
from apps.rooms.models import Room, RoomEvent
from apps.runs.models import Call, Run
from apps.turns.engine import run_turn
from apps.turns.openai_client import OpenAIProvider
from apps.turns.provider import ArgumentsDelta, CallStarted, ProviderFailed
from tests.factories.rooms import make_run
from tests.turns.fake_model import FakeModel, fake_model

NOTE = json.dumps({"title": "A note", "kind": "markdown", "body": "# Hello 😀"})


def chunk(delta: Any, finish: Any = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return json.dumps({"id": "x", "object": "chat.completion.chunk", "choices": [choice]})


END = (chunk({}, "stop"), "[DONE]")


def call_part(**part: Any) -> dict[str, Any]:
    return {"tool_calls": [part]}


def named(number: Any, ident: Any, name: Any = "search_about", arguments: Any = "{}") -> str:
    function = {"name": name, "arguments": arguments}
    return chunk(call_part(index=number, id=ident, function=function))


def heard(*lines: str) -> list[Any]:
    with fake_model() as model:
        model.sends(*lines)
        client = OpenAIProvider(base_url=model.url, api_key="", default_model="fake")
        return list(client.stream(model="", messages=[], tools=[], stopped=lambda: False))


@pytest.mark.parametrize(
    "line",
    [
        "{not json",
        "[" * 100_000,
        "5",
        '"text"',
        json.dumps({"choices": 5}),
        json.dumps({"choices": [5]}),
        json.dumps({"nothing": True}),
        chunk({"content": ["a"]}),
        chunk({"content": 5}),
        chunk("text"),
        chunk({"tool_calls": "text"}),
        chunk({"tool_calls": [5]}),
        named("0", "a"),
        named(0, 5),
        named(0, "a", name=["x"]),
        named(0, "a", arguments={"query": "x"}),
        json.dumps({"error": {"message": "SECRET"}}),
    ],
    ids=lambda line: line[:60],
)
def test_what_is_not_of_the_protocol_is_a_failed_provider(line: str) -> None:
    with pytest.raises(ProviderFailed) as failed:
        heard(line)
    assert "SECRET" not in failed.value.message


def test_calls_without_numbers_or_all_under_one_number_are_told_apart() -> None:
    found = heard(named(0, "a"), named(0, "b"), named(None, "c"), named(-7, "d"), *END)
    assert found == [
        delta
        for place, ident in enumerate("abcd")
        for delta in (CallStarted(place, ident, "search_about"), ArgumentsDelta(place, "{}"))
    ]


def test_pieces_that_repeat_id_or_name_belong_to_the_call_that_is_open() -> None:
    found = heard(
        named(3, "a", arguments=""),
        named(3, "a", arguments='{"query":'),
        named(3, "other", name=None, arguments='"x"}'),
        *END,
    )
    assert found == [
        CallStarted(0, "a", "search_about"),
        ArgumentsDelta(0, '{"query":'),
        ArgumentsDelta(0, '"x"}'),
    ]


def test_a_flood_of_calls_is_refused_whatever_their_numbers() -> None:
    with pytest.raises(ProviderFailed, match="16 calls"):
        heard(*(named(-n, f"c{n}") for n in range(40)), *END)


ODD = ("\x00", "\ud800", "a\x00\ud800b", "\u202e", "x" * 5_000)


@pytest.mark.django_db(transaction=True)
def test_no_text_of_a_model_keeps_a_turn_from_its_end(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    lines = []
    for number, odd in enumerate(ODD):
        lines.append(chunk({"content": f"Look: {odd}"}))
        arguments = json.dumps({"query": odd, odd: odd})
        lines.append(named(2 * number, odd, name=odd or None, arguments=arguments))
        lines.append(named(2 * number + 1, odd, arguments=json.dumps({"query": odd[:300]})))
    model.sends(*lines, *END)
    model.says("Done.")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert (run.state, run.outcome) == ("finished", "completed")
    assert set(Call.objects.values_list("state", flat=True)) == {"settled"}
    assert all(tool.isascii() and tool.isprintable() for tool in _names())
    assert RoomEvent.objects.filter(kind="message.posted").count() == 2
    ids = [call["id"] for call in model.asked[1]["messages"][-2 * len(ODD) - 1]["tool_calls"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.django_db(transaction=True)
def test_a_character_cut_in_two_by_the_stream_arrives_whole(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    raw = NOTE.encode().decode()
    middle = raw.index("\\ud83d") + 6
    first, second = raw[:middle], raw[middle:]
    model.sends(
        chunk({"content": "\ud83d"}),
        chunk({"content": "\ude00 here"}),
        named(0, "a", name="create_artifact", arguments=first),
        named(0, "a", name="", arguments=second),
        *END,
    )
    model.says("Saved.")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert Artifact.objects.get().title == "A note"
    assert RoomEvent.objects.filter(kind="message.posted", data__text="😀 here").exists()
    assert Run.objects.get().outcome == "completed"


def _names() -> list[str]:
    return list(Call.objects.values_list("tool", flat=True))
