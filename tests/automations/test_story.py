"""One whole story: a webhook starts a run, which waits for a yes that comes too late."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest, Receipt
from apps.audit.models import AuditRow
from apps.boundary.selectors import ready_calls
from apps.boundary.services import decide_approval
from apps.boundary.tasks import execute_call
from apps.rooms.models import Room, RoomEvent
from apps.runs.models import Call, Run
from apps.runs.selectors import ready_runs
from apps.turns.engine import run_turn
from tests.factories.clients import client_of
from tests.factories.effects import Letters, offer, outside_tool
from tests.turns.fake_model import FakeModel, fake_model

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def model(settings: Any) -> Iterator[FakeModel]:
    """A real HTTP endpoint that plays the model."""
    with fake_model() as model:
        settings.KAIZEN_MODEL_URL = model.url
        settings.KAIZEN_MODEL_NAME = "fake"
        settings.KAIZEN_MODEL_KEY = "key"
        yield model


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Letters:
    letters = Letters(tmp_path / "letters")
    offer(
        monkeypatch,
        outside_tool(letters.handler, name="send_report", needs_approval_when_unattended=True),
    )
    return letters


def go_on() -> None:
    """Do once whatever is ready, as workers would."""
    for ident in list(ready_calls(20)):
        execute_call(call_id=str(ident))
    for ident in list(ready_runs(20)):
        run_turn(run_id=ident)


def make_hook(mara: APIClient, agent: Agent, room: Room) -> tuple[str, APIClient]:
    """A webhook made over the API: its address, and a program that holds its token."""
    made = mara.post(
        "/api/v1/automations",
        {
            "name": "reports",
            "agent": agent.slug,
            "room": str(room.pk),
            "trigger": "webhook",
            "words": "Send the report to Anna.",
            "expires_at": (timezone.now() + timedelta(days=7)).isoformat(),
        },
    ).json()
    program = APIClient()
    program.credentials(HTTP_AUTHORIZATION=f"Bearer {made['token']}")
    return f"/api/v1/automations/{made['automation']['id']}", program


def answer(member: User) -> None:
    request = ApprovalRequest.objects.get(state="pending")
    decide_approval(
        approval_id=request.pk,
        member=member,
        approve=True,
        arguments_digest=request.arguments_digest,
    )


def test_a_yes_in_time_is_carried_out_once(
    member: User, agent: Agent, room: Room, model: FakeModel, letters: Letters
) -> None:
    model.calls(("send_report", {"to": "anna"}))
    model.says("It is sent.")
    address, program = make_hook(client_of(member), agent, room)
    assert program.post(f"{address}/start", {"figures": [1, 2]}).status_code == 202
    go_on()
    parked = Run.objects.get()
    # It waits durably, and holds no worker.
    assert (parked.state, parked.claimed_by) == ("parked", "")
    answer(member)
    go_on()
    go_on()
    ended = Run.objects.get()
    assert (ended.state, ended.outcome) == ("finished", "completed")
    assert len(letters.sent) == 1
    asked = model.asked[0]["messages"][-1]["content"]
    assert asked.startswith("Send the report to Anna.")
    assert "<<<outside-data" in asked


def test_a_yes_after_the_grant_was_revoked_executes_nothing_and_the_run_says_so(
    member: User, agent: Agent, room: Room, model: FakeModel, letters: Letters
) -> None:
    model.calls(("send_report", {"to": "anna"}))
    mara = client_of(member)
    address, program = make_hook(mara, agent, room)
    assert program.post(f"{address}/start", {}).status_code == 202
    go_on()
    assert mara.post(f"{address}/revoke", {}).status_code == 200
    answer(member)
    go_on()
    go_on()
    call = Call.objects.get()
    assert (call.outcome, call.rule) == ("refused", "automation_grant_holds")
    assert letters.sent == []
    assert Receipt.objects.get().spent_at is None
    ended = Run.objects.get()
    assert (ended.state, ended.outcome) == ("finished", "failed")
    # Nobody looks for another way to what was withdrawn.
    assert len(model.asked) == 1
    told = RoomEvent.objects.filter(kind="run.finished").latest("position").data
    assert "not allowed here" in told["explanation"]
    refused = program.post(f"{address}/start", {})
    assert (refused.status_code, refused.json()["rule"]) == (409, "automation_is_active")
    actions = list(
        AuditRow.objects.filter(action__startswith="automation.")
        .order_by("at")
        .values_list("action", flat=True)
    )
    assert actions == [
        "automation.created",
        "automation.started",
        "automation.revoked",
        "automation.refused",
    ]
