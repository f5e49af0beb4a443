"""What does Redis hold of a room: previews, presence, tickets?"""

from __future__ import annotations

import json
import threading
import time
import uuid
from typing import Any

import pytest
import redis

from apps.accounts.models import User
from apps.core.errors import NotFound, Unavailable
from apps.rooms import presence, relay, streams
from apps.rooms.models import Room
from apps.rooms.previews import open_previews, text_key
from apps.rooms.streams import StreamWriter
from apps.rooms.tickets import issue_ticket, redeem_ticket

pytestmark = pytest.mark.usefixtures("store")


@pytest.fixture
def room_id() -> str:
    return str(uuid.uuid4())


def writer(room_id: str, stream: str = "step-1") -> StreamWriter:
    return StreamWriter(
        room_id=room_id, stream=stream, of="say", run="r", agent={}, member={}, revision=1
    )


def shown(room_id: str) -> list[str]:
    return [frame["text"] for frame in open_previews(room_id)]


def soon(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_stream_leaves_nothing_behind(room_id: str) -> None:
    with writer(room_id) as stream:
        stream.open({"tool": "t"})
        stream.feed("some ")
        stream.feed("text")
        soon(lambda: shown(room_id) == ["some text"])
        stream.close("said")
        stream.close("dropped")
    assert shown(room_id) == []
    assert list(relay.client().scan_iter(f"kaizen:stream*{room_id}*")) == []


def test_a_turn_that_breaks_drops_its_stream(room_id: str) -> None:
    def turn() -> None:
        with writer(room_id) as stream:
            stream.open()
            stream.feed("x")
            raise LookupError

    with pytest.raises(LookupError):
        turn()
    assert shown(room_id) == []


def test_a_stream_is_opened_before_it_is_fed(room_id: str) -> None:
    stream = writer(room_id)
    with pytest.raises(RuntimeError):
        stream.feed("x")
    stream.open()
    with pytest.raises(RuntimeError):
        stream.open()
    stream.close("dropped")


def test_the_distance_between_frames_keeps_no_end_waiting(
    room_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writer(room_id) as stream:
        stream.open()
        stream.feed("shown")
        soon(lambda: shown(room_id) == ["shown"])
        monkeypatch.setattr(streams, "INTERVAL", 3600.0)
        stream.feed(" and shown")
        soon(lambda: shown(room_id) == ["shown and shown"])
        stream.feed(" and kept back")
        stream.close("said")
        # Closing waits a second at most, so only what ended at once has shown and removed all.
        assert shown(room_id) == []


def test_half_a_character_is_replaced(room_id: str) -> None:
    with writer(room_id) as stream:
        stream.open()
        stream.feed("a\ud83c")
        stream.feed("\ud83c\udf89b")
        soon(lambda: shown(room_id) == ["a\ufffd🎉b"])


def test_a_store_that_lost_text_gets_it_back(room_id: str) -> None:
    with writer(room_id) as stream:
        stream.open()
        stream.feed("first, ")
        soon(lambda: shown(room_id) == ["first, "])
        relay.client().set(text_key(room_id, "step-1"), "fi")
        stream.feed("second")
        soon(lambda: shown(room_id) == ["first, second"])


def test_a_worker_that_was_overtaken_shows_nothing_more(room_id: str) -> None:
    stale, fresh = writer(room_id), writer(room_id)
    stale.open()
    stale.feed("stale")
    soon(lambda: shown(room_id) == ["stale"])
    fresh.open()
    fresh.feed("fresh")
    soon(lambda: shown(room_id) == ["fresh"])
    stale.feed("er")
    soon(lambda: stale.closed)
    stale.close("said")
    assert shown(room_id) == ["fresh"]
    fresh.close("said")
    assert shown(room_id) == []


def test_frames_are_apart_and_add_up(room_id: str) -> None:
    heard: list[tuple[float, dict[str, Any]]] = []
    listener = relay.client().pubsub()
    listener.subscribe(relay.channel_of(room_id))

    def listen() -> None:
        for message in listener.listen():
            if message["type"] == "message":
                heard.append((time.monotonic(), json.loads(message["data"])))
                if heard[-1][1]["type"] == "stream.close":
                    return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    with writer(room_id) as stream:
        stream.open()
        for _ in range(200):
            stream.feed("abc ")
            time.sleep(0.002)
        stream.close("said")
    thread.join(10)
    listener.close()
    kinds = [frame["type"] for _, frame in heard]
    assert kinds[0] in ("stream.open", "stream.text")
    assert kinds[-1] == "stream.close"
    spent = heard[-1][0] - heard[0][0]
    # The last piece and the end keep no distance.
    assert len(heard) <= spent / 0.03 + 4
    assert all(frame["revision"] == 1 for _, frame in heard)
    text = ""
    for _, frame in heard[:-1]:
        assert frame.get("base", 0) == len(text)
        text += frame.get("delta", frame.get("text", ""))
    assert text == "abc " * 200


def test_a_dead_store_costs_a_turn_nothing(room_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any, **__: Any) -> Any:
        raise redis.ConnectionError

    monkeypatch.setattr(redis.Redis, "execute_command", gone)
    started = time.monotonic()
    stream = writer(room_id)
    stream.open()
    for _ in range(1000):
        stream.feed("x")
    assert time.monotonic() - started < 3.0
    stream.close("dropped")
    assert time.monotonic() - started < 6.0
    assert open_previews(room_id) == []


def announce(room_id: str, process: str, here: list[int], gone: list[int]) -> Any:
    keys, arguments = presence.announcement(room_id=room_id, process=process, here=here, gone=gone)
    return relay.client().register_script(presence.ANNOUNCE)(keys=keys, args=arguments)


def test_presence_is_the_sum_of_all_processes(room_id: str) -> None:
    assert announce(room_id, "one", [7, 3], []) == [3, 7]
    assert announce(room_id, "two", [7, 9], []) == [3, 7, 9]
    assert announce(room_id, "one", [], [7, 3]) == [7, 9]
    assert presence.online_in(room_id) == {7, 9}
    # A process that fell silent loses its members by itself.
    relay.client().zadd(presence.presence_key(room_id), {"two:9": 1})
    assert announce(room_id, "one", [1], []) == [1, 7]
    assert presence.online_in(room_id) == {1, 7}


def test_only_a_change_of_presence_is_announced(room_id: str) -> None:
    listener = relay.client().pubsub(ignore_subscribe_messages=True)
    listener.subscribe(relay.channel_of(room_id))
    listener.get_message(timeout=1)
    announce(room_id, "one", [1], [])
    announce(room_id, "one", [1], [])
    announce(room_id, "one", [1, 2], [])
    announce(room_id, "one", [], [1, 2])
    said = []
    while (message := listener.get_message(timeout=0.3)) is not None:
        said.append(json.loads(message["data"])["online"])
    listener.close()
    assert said == [[1], [1, 2], []]


def test_a_ticket_works_once_for_its_member_and_room(room: Room, owner: User, guest: User) -> None:
    ticket = issue_ticket(guest, room.pk)
    assert redeem_ticket(ticket, room.pk) == guest
    assert redeem_ticket(ticket, room.pk) is None
    assert redeem_ticket(issue_ticket(guest, room.pk), uuid.uuid4()) is None
    assert redeem_ticket("", room.pk) is None
    late = issue_ticket(owner, room.pk)
    User.objects.filter(pk=owner.pk).update(is_active=False)
    assert redeem_ticket(late, room.pk) is None


def test_nobody_gets_a_ticket_for_a_foreign_room(room: Room, stranger: User) -> None:
    for room_id in (room.pk, uuid.uuid4()):
        with pytest.raises(NotFound):
            issue_ticket(stranger, room_id)


def test_without_the_store_tickets_are_refused_and_not_guessed(
    room: Room, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any, **__: Any) -> Any:
        raise redis.TimeoutError

    ticket = issue_ticket(owner, room.pk)
    monkeypatch.setattr(redis.Redis, "execute_command", gone)
    with pytest.raises(Unavailable):
        issue_ticket(owner, room.pk)
    with pytest.raises(Unavailable):
        redeem_ticket(ticket, room.pk)
