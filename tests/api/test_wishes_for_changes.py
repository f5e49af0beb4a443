"""A member asks for a change of an artifact: the server routes the run, and grants nothing."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.artifacts.models import Artifact
from apps.audit.models import AuditRow
from apps.grants.services import choose_tools
from apps.rooms.models import Room, RoomEvent
from apps.runs.models import JournalEntry, Run, RunInput
from apps.runs.services import add_seat
from tests.factories.clients import problem
from tests.factories.rooms import claimed_run, crossed, make_agent, make_room

TOOL = "update_artifact"


def ask(
    client: APIClient, room: Room, about: Any, text: str = "Make it shorter", **more: Any
) -> Any:
    about = {"artifact": str(about)} if isinstance(about, uuid.UUID) else about
    return client.post(f"/api/v1/rooms/{room.pk}/messages", {"text": text, "about": about, **more})


@pytest.fixture
def idle(run: Run, artifact: Artifact) -> Artifact:
    """The artifact, after the run that made it."""
    Run.objects.update(state=Run.State.FINISHED)
    return artifact


def test_the_run_is_routed_to_the_tool_and_the_room_reads_what_it_is_about(
    as_mara: APIClient, room: Room, idle: Artifact
) -> None:
    response = ask(as_mara, room, idle.pk)
    assert response.status_code == 202, response.json()
    started = Run.objects.get(pk=response.json()["run"])
    assert started.policy == {"routed": TOOL}
    told = {"artifact": str(idle.pk), "title": "Plan", "version": 1}
    posted = RoomEvent.objects.get(room=room, position=response.json()["position"])
    assert (posted.data["text"], posted.data["about"]) == ("Make it shorter", told)
    asked = JournalEntry.objects.get(run=started).body
    assert asked["about"] == {"tool": TOOL, **told}
    row = AuditRow.objects.get(action="run.started", subject=started.key)
    assert row.detail["routed"] == {"tool": TOOL, **told}


def test_a_wish_that_waits_behind_a_run_keeps_its_route(
    as_mara: APIClient, room: Room, run: Run, artifact: Artifact
) -> None:
    assert ask(as_mara, room, artifact.pk).json()["queued"] is True
    assert RunInput.objects.latest("id").routed["artifact"] == str(artifact.pk)


def test_an_ordinary_message_is_routed_nowhere(as_mara: APIClient, room: Room) -> None:
    response = as_mara.post(f"/api/v1/rooms/{room.pk}/messages", {"text": f"Call {TOOL}"})
    assert Run.objects.get(pk=response.json()["run"]).policy == {}


def test_what_one_may_not_change_here_is_not_there(
    as_mara: APIClient, as_tomas: APIClient, mara: User, agent: Agent, room: Room, idle: Artifact
) -> None:
    problem(ask(as_mara, room, uuid.uuid4()), 404, "not_found")
    # Somebody else's, and one's own of another room.
    problem(ask(as_tomas, room, idle.pk), 404, "not_found")
    problem(ask(as_mara, make_room(mara, agent), idle.pk), 404, "not_found")
    Artifact.objects.update(kind=Artifact.Kind.FILE, file_name="plan.docx")
    problem(ask(as_mara, room, idle.pk), 404, "not_found")
    assert not RoomEvent.objects.filter(kind="message.posted").exists()


def test_whoever_is_not_in_the_room_learns_nothing_of_its_artifacts(
    as_stranger: APIClient, room: Room, idle: Artifact
) -> None:
    one, other = ask(as_stranger, room, idle.pk), ask(as_stranger, room, uuid.uuid4())
    assert problem(one, 404, "not_found")["detail"] == problem(other, 404, "not_found")["detail"]


def test_an_agent_without_the_tool_is_not_asked(
    as_mara: APIClient, mara: User, room: Room, agent: Agent, idle: Artifact
) -> None:
    reader = make_agent(mara, slug="reader", ceiling=["artifacts.read"])
    add_seat(room_id=room.pk, member=mara, agent_slug="reader")
    refused = problem(ask(as_mara, room, idle.pk, "@reader Shorter"), 409, "tool_not_offered")
    assert reader.name in refused["detail"]
    choose_tools(room_id=room.pk, agent_slug=agent.slug, member=mara, tools=["read_artifact"])
    problem(ask(as_mara, room, idle.pk, f"@{agent.slug} Shorter"), 409, "tool_not_offered")
    assert not RoomEvent.objects.filter(kind="message.posted").exists()


def test_a_wish_is_for_somebody(as_mara: APIClient, mara: User, room: Room, idle: Artifact) -> None:
    make_agent(mara, slug="second")
    add_seat(room_id=room.pk, member=mara, agent_slug="second")
    refused = problem(ask(as_mara, room, idle.pk), 422, "invalid")
    assert refused["field"] == "text"


@pytest.mark.parametrize(
    "about", [{}, {"artifact": "x"}, {"artifact": None}, "x", None, {"artifact": 1, "tool": "x"}]
)
def test_what_it_is_about_is_read_strictly(as_mara: APIClient, room: Room, about: Any) -> None:
    assert ask(as_mara, room, about).status_code in (400, 422)


def test_a_route_is_no_permission(
    as_mara: APIClient, mara: User, room: Room, agent: Agent, idle: Artifact
) -> None:
    ask(as_mara, room, idle.pk)
    Run.objects.update(state=Run.State.FINISHED)
    # Its catalog is frozen as ever, and every call is decided as ever.
    choose_tools(room_id=room.pk, agent_slug=agent.slug, member=mara, tools=["read_artifact"])
    later = claimed_run(room, agent, mara)
    wish = {"artifact_id": str(idle.pk), "expected_version": 1, "body": "Short."}
    assert crossed(later, TOOL, wish).call.outcome == "refused"
    assert Artifact.objects.get().head == 1
