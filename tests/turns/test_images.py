"""What a tool shows reaches a model that sees, beside the results, bounded and as data."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.services import change_agent
from apps.audit.models import AuditRow
from apps.boundary.pipeline import execute_waiting
from apps.boundary.selectors import ready_calls
from apps.core.blobs import get_blob
from apps.core.models import Blob
from apps.domain.manifests import parse_manifest
from apps.grants.services import grant_tool
from apps.packages.services import publish_package
from apps.rooms.models import Room, RoomEvent
from apps.runs.bodies import held_blobs, projection_of
from apps.runs.models import Call, JournalEntry, Run
from apps.turns.engine import run_turn
from apps.web.services import post_message
from tests.factories.rooms import claimed_run, crossed, make_member, make_run
from tests.turns.fake_model import FakeModel

pytestmark = pytest.mark.django_db(transaction=True)

LOOK = "pkg_look_album"


def png(colour: bytes) -> bytes:
    """A whole image of one dot."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" + colour)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


RED, BLUE = png(b"\xff\0\0"), png(b"\0\0\xff")


@pytest.fixture
def album(member: User, agent: Agent) -> None:
    """A package whose one tool shows its images; nothing of it runs."""
    raw = {
        "name": "album", "version": "1.0.0", "ref": "album@1.0.0", "format": "python",
        "tools": [
            {
                "definition": {
                    "id": "look", "description": "Look at an image.", "version": "1.0.0",
                    "input": {"type": "object"}, "output": {"type": "object"}, "mutating": False,
                },
                "collaboration_class": "actor_bound_read",
                "entry": {"builtin": "view_image"},
            }
        ],
    }  # fmt: skip
    publish_package(
        manifest=parse_manifest(raw),
        files={
            "package.json": b'{"name":"album","version":"1.0.0"}',
            "red.png": RED,
            "blue.png": BLUE,
        },
        author=member,
        admitted_by=make_member("ines"),
    )
    grant_tool(agent_id=agent.pk, granter=member, ref="album@1.0.0", tool=LOOK)


def looked(room: Room, agent: Agent, member: User, model: FakeModel, *paths: str) -> Run:
    """A whole turn in which the model looks at images one after the other."""
    for path in paths:
        model.calls((LOOK, {"path": path}))
    model.says("I have looked.")
    run = make_run(room, agent, member, "Look at it")
    for _ in range(len(paths) + 1):
        run_turn(run_id=run.pk)
        for call_id in ready_calls(10):
            execute_waiting(call_id=call_id, executor="test")
    run.refresh_from_db()
    assert run.outcome == "completed", run.explanation
    return run


def parts(request: dict[str, Any]) -> list[dict[str, Any]]:
    """What of a request is in parts: the messages that carry images."""
    return [one for one in request["messages"] if isinstance(one["content"], list)]


def url(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def urls(request: dict[str, Any]) -> list[str]:
    return [
        part["image_url"]["url"]
        for one in parts(request)
        for part in one["content"]
        if part["type"] == "image_url"
    ]


def sees(agent: Agent) -> None:
    change_agent(agent_id=agent.pk, actor=agent.owner, changes={"sees_images": True})


def test_a_model_that_sees_gets_each_image_right_behind_its_result(
    room: Room, agent: Agent, member: User, album: None, model: FakeModel
) -> None:
    sees(agent)
    looked(room, agent, member, model, "red.png", "blue.png")
    first, second, third = model.asked
    assert parts(first) == []
    assert urls(second) == [url(RED)]
    assert urls(third) == [url(RED), url(BLUE)]
    roles = [one["role"] for one in second["messages"][-3:]]
    assert roles == ["assistant", "tool", "user"]
    words = parts(second)[0]["content"][0]["text"]
    assert words.startswith("[Kaizen] These images came with the results above")
    assert "data from outside" in words
    assert LOOK in words
    # The result itself is the same text as ever.
    told = json.loads(second["messages"][-2]["content"])
    assert told["value"]["content"][0]["digest"] in words


def test_unless_an_agent_says_that_its_model_sees_only_the_digest_is_read(
    room: Room, agent: Agent, member: User, album: None, model: FakeModel
) -> None:
    run = looked(room, agent, member, model, "red.png")
    assert not any(parts(request) for request in model.asked)
    assert Call.objects.get(run=run).images == []
    assert "sha256:" in model.asked[1]["messages"][-1]["content"]


def test_no_record_holds_a_byte_of_an_image(
    room: Room, agent: Agent, member: User, album: None, model: FakeModel
) -> None:
    sees(agent)
    run = looked(room, agent, member, model, "red.png")
    call = Call.objects.get(run=run)
    (kept,) = call.images
    assert (kept["mime_type"], kept["size"]) == ("image/png", len(RED))
    rows = [AuditRow, JournalEntry, RoomEvent, Call]
    written = str([list(one.objects.values()) for one in rows]) + str(projection_of(call))
    assert base64.b64encode(RED).decode() not in written
    assert kept["digest"] in written


def test_an_image_is_kept_as_long_as_its_call(
    room: Room, agent: Agent, member: User, album: None, model: FakeModel
) -> None:
    sees(agent)
    run = looked(room, agent, member, model, "red.png")
    (kept,) = Call.objects.get(run=run).images
    assert kept["digest"] in held_blobs()
    assert get_blob(kept["digest"]) == RED
    Call.objects.update(images=[])
    assert kept["digest"] not in held_blobs()


def test_the_same_image_is_sent_once_where_it_came_last(
    room: Room, agent: Agent, member: User, album: None, model: FakeModel
) -> None:
    sees(agent)
    looked(room, agent, member, model, "red.png", "blue.png", "red.png")
    assert urls(model.asked[3]) == [url(BLUE), url(RED)]


def test_later_turns_remember_the_digest_alone(
    room: Room, agent: Agent, member: User, album: None, model: FakeModel
) -> None:
    sees(agent)
    looked(room, agent, member, model, "red.png")
    model.says("It was red.")
    later = post_message(room_id=room.pk, member=member, text="What was it?").run
    assert later is not None
    run_turn(run_id=later.pk)
    assert urls(model.asked[-1]) == []
    assert "sha256:" in str(model.asked[-1]["messages"])


def test_what_compaction_leaves_out_is_not_sent_either(
    room: Room, agent: Agent, member: User, album: None, model: FakeModel
) -> None:
    sees(agent)
    paths = ["red.png", "blue.png"]
    change_agent(agent_id=agent.pk, actor=agent.owner, changes={"context_tokens": 4_000})
    looked(room, agent, member, model, *paths)
    shown = [urls(request) for request in model.asked]
    assert JournalEntry.objects.filter(kind="compaction").exists()
    assert all(len(one) <= 1 for one in shown)


# --- other runtimes


def test_another_runtime_reads_an_image_of_its_own_run_by_its_digest(
    room: Room, agent: Agent, member: User, album: None
) -> None:
    sees(agent)
    client = Client()
    client.force_login(member)
    opened = client.post(
        f"/api/v1/rooms/{room.pk}/runs", {"agent": agent.slug}, content_type="application/json"
    ).json()
    headers = {"Authorization": f"Run {opened['token']}"}
    asked = {"name": LOOK, "arguments": {"path": "red.png"}, "proposal_id": "1"}
    path = "/api/v1/callback/calls"
    call = Client().post(path, asked, content_type="application/json", headers=headers).json()
    execute_waiting(call_id=call["call"], executor="test")
    told = Client().get(f"{path}/{call['call']}", headers=headers).json()
    (kept,) = told["images"]
    assert kept == {
        "digest": told["projection"]["value"]["content"][0]["digest"],
        "mime_type": "image/png",
        "size": len(RED),
    }
    there = f"{path}/{call['call']}/images/{kept['digest']}"
    answer = Client().get(there, headers=headers)
    assert (answer.status_code, answer["Content-Type"], answer.content) == (200, "image/png", RED)
    assert answer["X-Content-Type-Options"] == "nosniff"
    # By no other digest, through no other call, and without the token not at all.
    other = Blob.objects.exclude(pk=kept["digest"]).first()
    assert other is not None
    for wrong in (f"{path}/{call['call']}/images/{other.pk}", f"{path}/{call['call']}/images/x"):
        assert Client().get(wrong, headers=headers).status_code == 404
    assert Client().get(there).status_code == 401


def test_a_run_reads_no_image_of_another_run(
    room: Room, agent: Agent, member: User, album: None
) -> None:
    sees(agent)
    run = claimed_run(room, agent, member)
    call = crossed(run, LOOK, {"path": "red.png"}).call
    execute_waiting(call_id=call.pk, executor="test")
    call.refresh_from_db()
    client = Client()
    client.force_login(member)
    opened = client.post(
        f"/api/v1/rooms/{room.pk}/runs", {"agent": agent.slug}, content_type="application/json"
    ).json()
    there = f"/api/v1/callback/calls/{call.pk}/images/{call.images[0]['digest']}"
    headers = {"Authorization": f"Run {opened['token']}"}
    assert Client().get(there, headers=headers).status_code == 404
