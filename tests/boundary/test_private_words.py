"""What goes into a call and comes out of it is between the model and its member."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.serializers.json import DjangoJSONEncoder
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.audit.models import AuditRow
from apps.domain.tooling import Effect, Reason, ToolFailure, ToolOk
from apps.rooms.models import Room, RoomEvent
from apps.runs.bodies import projection_of
from apps.runs.models import Call, Run
from apps.tools.contract import CallContext
from apps.web.snapshot import room_snapshot
from tests.factories.clients import client_of
from tests.factories.effects import offer, outside_tool
from tests.factories.rooms import claimed_run, crossed, proposed

pytestmark = pytest.mark.django_db(transaction=True)

WORD = "plum-blossom"


def fails(arguments: dict[str, Any], context: CallContext) -> ToolFailure:
    return ToolFailure(Reason.COMMAND_FAILED, f"No letters for {arguments['to']}.")


def raises(arguments: dict[str, Any], context: CallContext) -> ToolOk:
    raise LookupError(arguments["to"])


def answers(arguments: dict[str, Any], context: CallContext) -> ToolOk:
    return ToolOk({"said": arguments["to"]})


def answers_wrongly(arguments: dict[str, Any], context: CallContext) -> ToolOk:
    return ToolOk([arguments["to"]])


@pytest.fixture
def run(room: Room, agent: Any, member: User, monkeypatch: pytest.MonkeyPatch) -> Run:
    made = []
    for handler in (fails, raises, answers, answers_wrongly):
        for effect in (Effect.READ, Effect.WRITE):
            name = f"{handler.__name__}_{effect.value}"
            schema = {"type": "object"}
            made.append(outside_tool(handler, name=name, effect=effect, output_schema=schema))
    offer(monkeypatch, *made)
    return claimed_run(room, agent, member)


def settle_everything(run: Run) -> None:
    from apps.approvals.models import ApprovalRequest
    from apps.boundary import pipeline
    from apps.boundary.services import decide_approval

    tools = [name for name in (run.catalog or {})["tools"] if name.endswith(("_read", "_write"))]
    for step, name in enumerate(sorted(tools), 1):
        crossed(run, name, {"to": WORD}, step=step)
    proposed(run, "create_artifact", {"title": WORD, "kind": WORD}, step=50)
    crossed(run, "update_artifact", {"artifact_id": WORD * 3, "expected_version": 1, "body": WORD},
            step=51)  # fmt: skip
    crossed(run, "no_such_tool", {"to": WORD}, step=52)
    crossed(run, "search_about", {"query": WORD}, step=53)
    for request in ApprovalRequest.objects.all():
        decide_approval(
            approval_id=request.pk,
            member=run.member,
            approve=True,
            arguments_digest=request.arguments_digest,
        )
    for call in Call.objects.filter(state="waiting"):
        pipeline.execute_waiting(call_id=call.pk, executor="worker")


def test_nobody_else_in_the_room_reads_arguments_or_results(
    run: Run, room: Room, guest: User, member: User
) -> None:
    settle_everything(run)
    calls = list(Call.objects.all())
    assert {call.outcome for call in calls} >= {"ok", "error", "raised", "ambiguous", "refused"}
    others: APIClient = client_of(guest)
    seen: list[Any] = [
        *RoomEvent.objects.values("kind", "data"),
        *AuditRow.objects.values(),
        room_snapshot(room, guest),
        others.get(f"/api/v1/runs/{run.pk}").json(),
        others.get(f"/api/v1/runs/{run.pk}/calls").json(),
        *(others.get(f"/api/v1/calls/{call.pk}").json() for call in calls),
    ]
    for view in seen:
        assert WORD not in json.dumps(view, cls=DjangoJSONEncoder), view
    # A digest of something short is as good as the thing itself.
    shown = json.dumps([*RoomEvent.objects.values("data"), *seen[-len(calls) :]])
    assert not any(call.arguments_digest in shown for call in calls)
    own = client_of(member)
    assert WORD in own.get(f"/api/v1/calls/{calls[0].pk}").content.decode()
    assert any(WORD in str(projection_of(call)) for call in calls)
