"""What a model is told of a call whose arguments a person changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest
from apps.boundary import pipeline
from apps.boundary.edits import edit_approval
from apps.rooms.models import Room
from apps.runs.models import Call
from apps.turns.context import read_conversation
from apps.turns.engine import run_turn
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import make_run
from tests.turns.fake_model import FakeModel


def test_a_model_reads_whose_arguments_were_used_and_how_that_call_ended(
    room: Room,
    agent: Agent,
    member: User,
    model: FakeModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    letters = Letters(tmp_path / "letters")
    offer(monkeypatch, outside_tool(letters.handler))
    model.calls(("send_letter", {"to": "anna"}))
    model.says("It went to Bea.")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    asked = ApprovalRequest.objects.get()
    edited = edit_approval(
        approval_id=asked.pk,
        member=member,
        arguments_digest=asked.arguments_digest,
        arguments={"to": "bea"},
    )
    pipeline.execute_waiting(call_id=edited.call.pk, executor="worker")
    run_turn(run_id=run.pk)
    (told,) = [m for m in model.asked[1]["messages"] if m["role"] == "tool"]
    result = json.loads(told["content"])
    assert (result["outcome"], result["reason"]) == ("denied", "superseded")
    assert result["replaced_by"]["arguments"] == {"to": "bea"}
    assert result["replaced_by"]["result"]["outcome"] == "ok"
    proposed = model.asked[1]["messages"][-2]["tool_calls"]
    assert json.loads(proposed[0]["function"]["arguments"]) == {"to": "anna"}
    assert Call.objects.filter(run=run).count() == 2
    run.refresh_from_db()
    assert (run.outcome, len(letters.sent)) == ("completed", 1)
    summary = read_conversation(run).summary_of(1)
    assert "anna" in summary
    assert "bea" in summary
