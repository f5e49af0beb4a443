"""What is one socket owed, and what never passes?"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from apps.rooms.previews import digest_of
from apps.rooms.viewers import MAX_CHARACTERS, MAX_EVENTS, NOT_HERE, RESUME, Viewer
from apps.rooms.watched import Watched


@pytest.fixture
async def room() -> Watched:
    return Watched("00000000-0000-0000-0000-000000000001")


def joined(room: Watched, *, user_id: int = 1, position: int = 0, begun: bool = True) -> Viewer:
    viewer = Viewer(user_id=user_id, room=room)
    room.viewers.add(viewer)
    if begun:
        viewer.begin(position=position, revision=room.revision)
    return viewer


def event(position: int, **data: Any) -> dict[str, Any]:
    return {"type": "event", "position": position, "kind": "message.posted", "data": data}


async def taken(viewer: Viewer) -> list[dict[str, Any]]:
    """Everything that the viewer may have right now."""
    messages = []
    while True:
        try:
            messages.append(json.loads(await asyncio.wait_for(viewer.next(), 0.02)))
        except TimeoutError:
            return messages


async def test_events_wait_for_the_greeting_and_are_not_doubled(room: Watched) -> None:
    viewer = joined(room, begun=False)
    room.hand_out([event(1), event(2), event(3)])
    viewer.begin(position=4, revision=0)
    # The greeting was read ahead of the hub: what it held comes again, and is not sent again.
    room.hand_out([event(3), event(4), event(5)])
    assert [message["position"] for message in await taken(viewer)] == [5]


async def test_nothing_passes_to_a_viewer_behind_the_roster(room: Watched) -> None:
    viewer = joined(room)
    room.learn_revision(2)
    room.hand_out([event(1)])
    room.take_frame({"type": "stream.open", "stream": "s"})
    room.now_online({1, 2})
    viewer.ask_pong()
    assert await taken(viewer) == []
    viewer.checked(1)
    assert await taken(viewer) == []
    viewer.checked(2)
    kinds = [message["type"] for message in await taken(viewer)]
    assert kinds == ["event", "stream.open", "presence", "pong"]


async def test_a_viewer_that_has_ended_gets_nothing_more(room: Watched) -> None:
    viewer = joined(room)
    room.hand_out([event(1)])
    viewer.end(NOT_HERE)
    viewer.end(RESUME)
    assert await taken(viewer) == []
    assert viewer.ended.result() is NOT_HERE


@pytest.mark.parametrize(
    "events",
    [
        [event(number) for number in range(1, MAX_EVENTS + 2)],
        [event(number, text="x" * (MAX_CHARACTERS // 4)) for number in range(1, 6)],
    ],
)
async def test_a_viewer_too_far_behind_is_told_to_resume(
    room: Watched, events: list[dict[str, Any]]
) -> None:
    slow, quick = joined(room), joined(room, user_id=2)
    for one in events:
        room.hand_out([one])
        assert [message["position"] for message in await taken_now(quick)] == [one["position"]]
    assert slow.ended.result() is RESUME
    assert not quick.ended.done()


async def taken_now(viewer: Viewer) -> list[dict[str, Any]]:
    return [json.loads(await viewer.next())]


async def test_a_slow_viewer_gets_one_delta_and_no_backlog(room: Watched) -> None:
    viewer = joined(room)
    room.take_frame({"type": "stream.open", "stream": "s"})
    await taken(viewer)
    text = ""
    for number in range(1000):
        piece = f"{number} "
        frame = {"type": "stream.delta", "stream": "s", "base": len(text), "delta": piece}
        text += piece
        assert room.take_frame({**frame, "length": len(text), "digest": digest_of(text)})
    [message] = await taken(viewer)
    assert (message["type"], message["delta"]) == ("stream.delta", text)


async def test_what_was_never_seen_is_not_closed(room: Watched) -> None:
    early = joined(room)
    room.take_frame({"type": "stream.open", "stream": "s"})
    await taken(early)
    late = joined(room, user_id=2)
    room.take_frame(
        {"type": "stream.close", "stream": "s", "outcome": "saved", "version": 2, "revision": 0}
    )
    [close] = await taken(early)
    assert close == {"type": "stream.close", "stream": "s", "outcome": "saved", "version": 2}
    assert await taken(late) == []


async def test_a_preview_that_ends_during_the_greeting_is_closed(room: Watched) -> None:
    room.take_frame({"type": "stream.text", "stream": "s", "text": "x"})
    viewer = joined(room, begun=False)
    viewer.was_sent({"s": room.writings["s"].now})
    room.take_frame({"type": "stream.close", "stream": "s", "outcome": "dropped"})
    viewer.begin(position=0, revision=0)
    assert [message["type"] for message in await taken(viewer)] == ["stream.close"]


async def test_an_old_reading_of_the_store_brings_nothing_back(room: Watched) -> None:
    viewer = joined(room)
    room.take_frame({"type": "stream.text", "stream": "s", "text": "abc"})
    room.take_frame({"type": "stream.text", "stream": "new", "text": ""})
    await taken(viewer)
    room.take_frame({"type": "stream.close", "stream": "s", "outcome": "said"})
    # Read before the close and before the other was opened.
    room.take_previews([{"stream": "s", "text": "ab", "length": 2}], read_at=0.0)
    assert set(room.writings) == {"new"}
    # A step that is repeated uses the name of its preview again.
    room.take_frame({"type": "stream.open", "stream": "s"})
    assert set(room.writings) == {"new", "s"}


async def test_a_preview_that_starts_anew_is_sent_whole(room: Watched) -> None:
    viewer = joined(room)
    room.take_frame({"type": "stream.text", "stream": "s", "text": "first try"})
    await taken(viewer)
    room.take_frame({"type": "stream.text", "stream": "s", "text": "second try, longer"})
    [message] = await taken(viewer)
    assert (message["type"], message["text"]) == ("stream.text", "second try, longer")


async def test_the_store_is_right_about_what_has_gone(room: Watched) -> None:
    viewer = joined(room)
    room.take_frame({"type": "stream.text", "stream": "s", "text": "abc"})
    await taken(viewer)
    room.take_previews([], read_at=float("inf"))
    assert [message["type"] for message in await taken(viewer)] == ["stream.close"]


async def test_the_end_of_a_run_ends_its_previews_only(room: Watched) -> None:
    viewer = joined(room)
    for stream, run in (("a", "1"), ("b", "2")):
        room.take_frame({"type": "stream.open", "stream": stream, "run": run})
    await taken(viewer)
    room.hand_out([{**event(1, run="1"), "kind": "run.finished"}])
    messages = await taken(viewer)
    assert [message["type"] for message in messages] == ["event", "stream.close"]
    assert set(room.writings) == {"b"}


async def test_an_unknown_preview_is_said_to_be_gone(room: Watched) -> None:
    viewer = joined(room)
    viewer.ask_text("nothing")
    [close] = await taken(viewer)
    assert (close["type"], close["outcome"]) == ("stream.close", "dropped")
    for _ in range(MAX_EVENTS + 1):
        viewer.ask_text("nothing")
    assert viewer.ended.result() is RESUME


async def test_a_text_is_sent_again_when_asked_for(room: Watched) -> None:
    viewer = joined(room)
    room.take_frame({"type": "stream.text", "stream": "s", "text": "abc"})
    await taken(viewer)
    for _ in range(5):
        viewer.ask_text("s")
    [message] = await taken(viewer)
    assert (message["type"], message["text"]) == ("stream.text", "abc")
