"""One correlation id for one story: from the request through run, call and worker to the audit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from structlog import contextvars

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest
from apps.audit.models import AuditRow
from apps.boundary import pipeline
from apps.boundary.external import open_external_run
from apps.boundary.services import decide_approval
from apps.core.correlation import bind_correlation_id, current_correlation_id
from apps.domain.tooling import ToolOk
from apps.quotas.models import Reservation
from apps.rooms.models import Room
from apps.runs.models import Call, Run
from apps.tools.contract import CallContext
from tests.factories.effects import offer, outside_tool, own_tool
from tests.factories.rooms import claimed_run, crossed

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def heard() -> list[str]:
    """The correlation ids under which tools ran; every line of the log carries the same."""
    return []


@pytest.fixture
def run(
    room: Room, agent: Agent, member: User, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    def listen(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        heard.append(contextvars.get_contextvars()["correlation_id"])
        return ToolOk({})

    offer(monkeypatch, own_tool(listen), outside_tool(listen))
    return claimed_run(room, agent, member)


def settled_under(call: Call) -> str:
    return AuditRow.objects.get(subject=call.key, outcome="ok").correlation_id


def test_a_worker_goes_on_under_the_id_of_the_run(run: Run, member: User, heard: list[str]) -> None:
    call = crossed(run, "send_letter", {"to": "anna"}).call
    asked = ApprovalRequest.objects.get(call=call)
    decide_approval(
        approval_id=asked.pk,
        member=member,
        approve=True,
        arguments_digest=asked.arguments_digest,
    )
    bind_correlation_id("something-else")
    pipeline.execute_waiting(call_id=call.pk, executor="worker")
    assert heard == [run.correlation_id]
    assert settled_under(call) == run.correlation_id
    assert Reservation.objects.get(call=call).correlation_id == run.correlation_id


def test_another_runtimes_calls_belong_to_the_story_of_their_run(
    run: Run, room: Room, member: User, heard: list[str]
) -> None:
    bind_correlation_id("the-request-that-opened-it")
    opened = open_external_run(room_id=room.pk, member=member, agent_slug="scribe")
    assert opened.run.correlation_id == current_correlation_id()
    answer = Client().post(
        "/api/v1/callback/calls",
        json.dumps({"name": "own", "arguments": {}, "proposal_id": "one"}),
        content_type="application/json",
        headers={"Authorization": f"Run {opened.token}"},
    )
    assert answer.status_code == 200
    call = Call.objects.get(run=opened.run)
    assert heard == [opened.run.correlation_id]
    assert settled_under(call) == opened.run.correlation_id
