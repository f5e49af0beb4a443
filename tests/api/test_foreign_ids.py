"""What belongs to others looks exactly like what does not exist."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.agents.models import Agent
from apps.artifacts.models import Artifact
from apps.audit.models import AuditRow
from apps.rooms.models import Room
from apps.runs.models import Call, Run
from tests.factories.automations import make_automation
from tests.factories.clients import problem, without_correlation
from tests.factories.questions import make_question

DIGEST = "sha256:" + "0" * 64
ROOM_PATHS: list[tuple[str, str, Any]] = [
    ("get", "rooms/{room}", None),
    ("get", "rooms/{room}/events", None),
    ("get", "rooms/{room}/snapshot", None),
    ("get", "rooms/{room}/seats", None),
    ("post", "rooms/{room}/participants", {"username": "someone"}),
    ("delete", "rooms/{room}/participants/someone", None),
    ("post", "rooms/{room}/seats", {"agent": "someone"}),
    ("delete", "rooms/{room}/seats/someone", None),
    ("post", "rooms/{room}/close", {}),
    ("post", "rooms/{room}/messages", {"text": "Hello"}),
    ("post", "rooms/{room}/ticket", {}),
    ("post", "rooms/{room}/runs", {"agent": "someone"}),
    ("get", "rooms/{room}/workspace", None),
    ("get", "rooms/{room}/workspace/files", None),
    ("get", "rooms/{room}/workspace/content?path=a", None),
    ("delete", "rooms/{room}/workspace", None),
]
OTHER_PATHS: list[tuple[str, str, Any]] = [
    ("get", "runs/{run}", None),
    ("get", "runs/{run}/calls", None),
    ("post", "runs/{run}/stop", {}),
    ("post", "runs/{run}/token", {}),
    ("get", "calls/{call}", None),
    ("get", "approvals/{approval}", None),
    ("post", "approvals/{approval}/approve", {"arguments_digest": DIGEST}),
    ("post", "approvals/{approval}/approve", {}),
    ("post", "approvals/{approval}/deny", {"reason": "No."}),
    ("post", "approvals/{approval}/edit", {"arguments_digest": DIGEST, "arguments": {}}),
    ("post", "approvals/{approval}/edit", {}),
    ("get", "artifacts/{artifact}", None),
    ("get", "artifacts/{artifact}/versions", None),
    ("get", "artifacts/{artifact}/versions/1", None),
    ("get", "automations/{automation}", None),
    ("patch", "automations/{automation}", {"name": "Mine"}),
    ("delete", "automations/{automation}", None),
    ("post", "automations/{automation}/revoke", {}),
    ("post", "automations/{automation}/token", {}),
    ("get", "artifacts/{artifact}/versions/1/content", None),
    ("post", "artifacts/{artifact}/versions", {"expected_version": 1, "body": "Mine"}),
    ("get", "artifacts/{artifact}/shares", None),
    ("post", "artifacts/{artifact}/shares", {"username": "someone"}),
    ("delete", "artifacts/{artifact}/shares/someone", None),
    ("get", "agents/{agent}", None),
    ("patch", "agents/{agent}", {"name": "Mine"}),
    ("delete", "agents/{agent}", None),
    ("get", "agents/{agent}/grants", None),
    ("post", "agents/{agent}/grants", {"ref": "a@1.0.0", "tool": "t"}),
    ("delete", "agents/{agent}/grants/t", None),
    ("get", "agents/{agent}/shares", None),
    ("post", "agents/{agent}/shares", {"username": "someone"}),
    ("delete", "agents/{agent}/shares/someone", None),
]


@pytest.mark.parametrize(("method", "path", "body"), ROOM_PATHS + OTHER_PATHS)
def test_a_foreign_id_and_a_missing_one_are_answered_alike(
    as_stranger: APIClient,
    room: Room,
    run: Run,
    call: Call,
    artifact: Artifact,
    agent: Agent,
    method: str,
    path: str,
    body: Any,
) -> None:
    ids = {
        "room": room.pk,
        "run": run.pk,
        "call": call.pk,
        "artifact": artifact.pk,
        "agent": agent.slug,
        "approval": make_question(run).pk,
        "automation": make_automation(run.member, agent, room).automation.pk,
    }
    nothing = {name: "no-such-agent" if name == "agent" else uuid.uuid4() for name in ids}
    rows = AuditRow.objects.count()
    foreign = getattr(as_stranger, method)("/api/v1/" + path.format(**ids), body)
    missing = getattr(as_stranger, method)("/api/v1/" + path.format(**nothing), body)
    problem(foreign, 404, "not_found")
    assert without_correlation(foreign) == without_correlation(missing)
    assert dict(foreign.headers).keys() == dict(missing.headers).keys()
    # Nothing but that both were refused, in the same words.
    refused = AuditRow.objects.filter(action="api.not_found", outcome="refused")
    assert (refused.count(), AuditRow.objects.count()) == (2, rows + 2)


@pytest.mark.parametrize(
    "path", ["rooms", "runs", "artifacts", "agents", "approvals", "automations"]
)
def test_lists_hold_nothing_of_others(
    as_stranger: APIClient, run: Run, artifact: Artifact, path: str
) -> None:
    make_question(run)
    assert as_stranger.get(f"/api/v1/{path}").json()["results"] == []


def test_filters_reach_no_further(as_stranger: APIClient, room: Room, artifact: Artifact) -> None:
    for path in ("runs", "artifacts"):
        assert as_stranger.get(f"/api/v1/{path}?room={room.pk}").json()["results"] == []


def test_who_has_left_is_a_stranger(
    as_tomas: APIClient, as_mara: APIClient, room: Room, tomas: Any, call: Call
) -> None:
    assert as_tomas.get(f"/api/v1/rooms/{room.pk}").status_code == 200
    url = f"/api/v1/rooms/{room.pk}/participants/{tomas.username}"
    assert as_mara.delete(url).status_code == 204
    for path in (f"rooms/{room.pk}", f"runs/{call.run_id}", f"calls/{call.pk}"):
        problem(as_tomas.get(f"/api/v1/{path}"), 404, "not_found")
