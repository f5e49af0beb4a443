"""Does a text that is being written reach every viewer, whenever they come and however slow?"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from apps.accounts.models import User
from apps.rooms import relay
from apps.rooms.models import Room
from apps.rooms.previews import MAX_TEXT, head_key, text_key
from apps.rooms.services import publish_event, remove_participant
from apps.rooms.streams import StreamWriter
from apps.web.snapshot import room_snapshot
from tests.web.sockets.stack import Socket, Valkey, WebServer, say

pytestmark = [pytest.mark.workers, pytest.mark.django_db(transaction=True)]

RUN = "0f0f0f0f-0000-4000-8000-000000000001"


@pytest.fixture
def writer(room: Room, owner: User) -> Iterator[StreamWriter]:
    with writer_of(room, owner) as writer:
        yield writer


def writer_of(room: Room, owner: User) -> StreamWriter:
    return StreamWriter(
        room_id=room.pk,
        stream=uuid.uuid4().hex,
        of="artifact",
        run=RUN,
        agent={"slug": "scribe", "name": "Scribe"},
        member={"id": owner.pk, "username": owner.username, "name": owner.name},
        revision=room.roster_revision,
    )


class Preview:
    """What a faithful client makes of the frames."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.meta: dict[str, Any] = {}
        self.closed: dict[str, Any] | None = None
        self.deltas = 0

    def take(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind in ("stream.open", "stream.text"):
            self.text = message.get("text", "")
        elif kind == "stream.delta":
            assert self.text is not None
            assert message["base"] == len(self.text)
            self.text += message["delta"]
            self.deltas += 1
            assert message["length"] == len(self.text)
        elif kind == "stream.close":
            self.closed = message
            return
        else:
            return
        self.meta = message.get("meta", self.meta)
        if "digest" in message:
            assert message["digest"] == hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def follow(self, viewer: Socket, text: str, seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        while self.text != text:
            self.take(viewer.next(max(0.01, deadline - time.monotonic())))


def test_a_text_grows_before_everybody(
    server: WebServer, room: Room, owner: User, guest: User, writer: StreamWriter
) -> None:
    viewers = [server.open(room.pk, user) for user in (owner, guest)]
    for viewer in viewers:
        viewer.next()
    writer.open({"tool": "create_artifact"})
    text = ""
    for word in ("# Título\n", "naïve ", "日本語 ", "🎉 party\n") * 20:
        text += word
        writer.feed(word, {"title": "Título"} if len(text) > 30 else None)
        time.sleep(0.004)
    for viewer in viewers:
        preview = Preview()
        preview.follow(viewer, text)
        # Coalesced: far fewer frames than pieces, and still more than one.
        assert 2 <= preview.deltas <= 30
        assert preview.meta == {"tool": "create_artifact", "title": "Título"}
    opened = next(m for m in viewers[0].seen if m["type"].startswith("stream."))
    assert (opened["of"], opened["run"], opened["agent"]["slug"]) == ("artifact", RUN, "scribe")
    writer.close("saved", artifact=uuid.UUID(int=7), version=3)
    for viewer in viewers:
        closed = viewer.frame("stream.close")
        assert (closed["outcome"], closed["artifact"], closed["version"]) == (
            "saved",
            str(uuid.UUID(int=7)),
            3,
        )
        viewer.close()


def test_who_joins_in_the_middle_gets_the_text_so_far(
    server: WebServer, room: Room, owner: User, guest: User, writer: StreamWriter
) -> None:
    first = server.open(room.pk, owner)
    first.next()
    writer.open({"kind": "markdown"})
    writer.feed("one ")
    Preview().follow(first, "one ")
    [streamed] = room_snapshot(room, owner)["streams"]
    late = server.open(room.pk, guest)
    [shown] = late.next()["snapshot"]["streams"]
    assert shown["text"] == streamed["text"] == "one "
    preview = Preview()
    preview.take(shown)
    writer.feed("two")
    preview.follow(late, "one two")
    resumed = server.open(room.pk, guest, after=room.position)
    assert resumed.next()["resumed"] is True
    assert resumed.frame("stream.text")["text"] == "one two"
    writer.close("dropped")
    for viewer in (first, late, resumed):
        assert viewer.frame("stream.close")["outcome"] == "dropped"
        viewer.close()
    assert room_snapshot(room, owner)["streams"] == []


def test_a_text_can_be_asked_for(
    server: WebServer, room: Room, owner: User, writer: StreamWriter
) -> None:
    viewer = server.open(room.pk, owner)
    viewer.next()
    writer.open()
    writer.feed("all of it")
    Preview().follow(viewer, "all of it")
    stream = viewer.seen[-1]["stream"]
    viewer.send({"type": "text", "stream": stream})
    assert viewer.frame("stream.text")["text"] == "all of it"
    viewer.send({"type": "text", "stream": "unknown"})
    closed = viewer.frame("stream.close")
    assert (closed["stream"], closed["outcome"]) == ("unknown", "dropped")
    viewer.close()


def test_a_hub_that_missed_a_frame_reads_the_text_anew(
    server: WebServer, room: Room, owner: User, writer: StreamWriter
) -> None:
    viewer = server.open(room.pk, owner)
    viewer.next()
    writer.open()
    writer.feed("seen, ")
    preview = Preview()
    preview.follow(viewer, "seen, ")
    stream = viewer.seen[-1]["stream"]
    # Written to the store without a frame, as if the frame had been lost on its way.
    held = relay.client()
    held.append(text_key(str(room.pk), stream), "missed, ")
    with writer._changed:
        writer._shown_bytes += len("missed, ")
        writer._shown += len("missed, ")
        writer._length += len("missed, ")
        writer._bytes += len("missed, ")
        writer._hash.update(b"missed, ")
        writer._pieces.append("missed, ")
    writer.feed("seen again")
    preview.follow(viewer, "seen, missed, seen again")
    viewer.close()


def test_a_slow_viewer_gets_one_combined_delta(
    server: WebServer, room: Room, owner: User, guest: User
) -> None:
    slow, quick = server.open(room.pk, guest, slow=True), server.open(room.pk, owner)
    for viewer in (slow, quick):
        viewer.next()
    # Fill what lies between the server and the slow one, with many long texts in turn.
    for _ in range(50):
        with writer_of(room, owner) as clog:
            clog.open()
            clog.feed("x" * 150_000)
            quick.until(lambda message: message.get("length") == 150_000)
            quick.seen.clear()
    with writer_of(room, owner) as writer:
        writer.open()
        text = ""
        for number in range(100):
            text += f"{number} "
            writer.feed(f"{number} ")
            time.sleep(0.01)
        fast, behind = Preview(), Preview()
        fast.follow(quick, text)
        while behind.text != text:
            behind.take(slow.until(lambda message: message.get("stream") == writer._stream))
        assert fast.deltas > 10
        assert behind.deltas <= 2
    for viewer in (slow, quick):
        viewer.close()


def test_a_text_past_the_bound_is_dropped_and_says_so(
    server: WebServer, room: Room, owner: User, writer: StreamWriter
) -> None:
    viewer = server.open(room.pk, owner)
    viewer.next()
    writer.open()
    writer.feed("é" * MAX_TEXT)
    assert not writer.closed
    writer.feed("!")
    assert writer.closed
    closed = viewer.frame("stream.close")
    assert (closed["outcome"], closed["reason"]) == ("dropped", "too_long")
    writer.feed("ignored")
    writer.close("saved")
    marker = say(room, owner, "marker")
    viewer.event(marker)
    assert [m["type"] for m in viewer.seen].count("stream.close") == 1
    viewer.close()


def test_the_end_of_a_run_ends_its_previews(
    server: WebServer, room: Room, owner: User, writer: StreamWriter
) -> None:
    viewer = server.open(room.pk, owner)
    viewer.next()
    writer.open()
    writer.feed("left behind")
    Preview().follow(viewer, "left behind")
    # The worker died here; another one ended the run.
    publish_event(room_id=room.pk, kind="run.finished", actor="agent:scribe", data={"run": RUN})
    assert viewer.frame("stream.close")["outcome"] == "dropped"
    assert viewer.positions()
    viewer.close()


def test_who_was_removed_sees_no_more_of_a_text(
    server: WebServer, room: Room, owner: User, guest: User, writer: StreamWriter
) -> None:
    leaving, staying = server.open(room.pk, guest), server.open(room.pk, owner)
    for viewer in (leaving, staying):
        viewer.next()
    writer.open()
    writer.feed("for both")
    Preview().follow(leaving, "for both")
    remove_participant(room_id=room.pk, actor=owner, username=guest.username)
    removed = time.monotonic()
    while time.monotonic() - removed < 1.0:
        writer.feed(".")
        time.sleep(0.02)
    writer.feed("secret")
    assert leaving.closing() == 4403
    assert not any("secret" in m.get("delta", "") for m in leaving.seen)
    staying.until(lambda message: "secret" in message.get("delta", ""))
    staying.close()


def test_a_preview_without_a_writer_expires(
    valkey: Valkey, room: Room, owner: User, writer: StreamWriter
) -> None:
    writer.open()
    writer.feed("words")
    store = redis.Redis.from_url(valkey.url)
    deadline = time.monotonic() + 5
    while not store.exists(text_key(str(room.pk), writer._stream)):
        assert time.monotonic() < deadline
    for key in (text_key, head_key):
        assert 0 < store.ttl(key(str(room.pk), writer._stream)) <= 60


def test_garbage_on_the_channel_harms_nobody(
    server: WebServer, valkey: Valkey, room: Room, owner: User
) -> None:
    viewer = server.open(room.pk, owner)
    viewer.next()
    store = redis.Redis.from_url(valkey.url)
    channel = relay.channel_of(str(room.pk))
    for message in (
        b"\xff", b"{", b"[]", b"{}", b'{"bell":"x"}', b'{"type":"presence"}', b'{"bell":true}',
        b'{"type":"stream.delta","stream":"s"}', b'{"type":"stream.text","stream":""}',
        b'{"type":"stream.delta","stream":7,"delta":8}', b'{"type":"else","stream":"s"}',
        b'{"bell":99999999}',
    ):  # fmt: skip
        store.publish(channel, message)
    position = say(room, owner, "still here")
    viewer.event(position)
    assert [m["type"] for m in viewer.seen if m["type"] not in ("presence", "hello")] == ["event"]
    viewer.close()
