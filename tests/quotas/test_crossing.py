"""A call outside takes from a quota before anything goes out; what is only ours takes none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import User
from apps.approvals.models import ApprovalRequest, Receipt
from apps.boundary import pipeline
from apps.boundary.selectors import ready_calls
from apps.boundary.services import decide_approval
from apps.domain.tooling import Effect, Reason, ToolFailure, ToolOk
from apps.quotas.models import Meter, Quota, Reservation
from apps.quotas.selectors import left_behind, usage_of
from apps.rooms.models import RoomEvent
from apps.runs.bodies import projection_of
from apps.runs.claims import fenced
from apps.runs.models import Call, Run
from apps.runs.services import park_run
from apps.tools.contract import CallContext
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Letters:
    letters = Letters(tmp_path / "letters")
    offer(monkeypatch, outside_tool(letters.handler))
    return letters


@pytest.fixture
def member(transactional_db: Any) -> User:
    return make_member("mara")


@pytest.fixture
def run(member: User, letters: Letters) -> Run:
    agent = make_agent(member, slug="scribe")
    return claimed_run(make_room(member, agent), agent, member)


def approved(run: Run, member: User, to: str, place: int) -> Call:
    call = crossed(run, "send_letter", {"to": to}, place=place).call
    asked = ApprovalRequest.objects.get(call=call)
    decide_approval(
        approval_id=asked.pk, member=member, approve=True, arguments_digest=asked.arguments_digest
    )
    return call


def carried_out(call: Call) -> Call:
    pipeline.execute_waiting(call_id=call.pk, executor="worker")
    return Call.objects.get(pk=call.pk)


def limit(unit: str, period: str, most: int) -> None:
    Quota.objects.create(subject="member", unit=unit, period=period, most=most)


def used(member: User, unit: str, period: str) -> tuple[int, int]:
    use = next(one for one in usage_of(member) if (one.unit, one.period) == (unit, period))
    return use.used, use.held


def test_a_read_of_our_own_takes_nothing(run: Run) -> None:
    limit("calls", "day", 0)
    assert crossed(run, "list_available_agents", {}).call.outcome == "ok"
    note = {"title": "A note", "kind": "markdown", "body": "Hello"}
    assert crossed(run, "create_artifact", note, step=2).call.outcome == "ok"
    assert not Meter.objects.exists()
    assert not Reservation.objects.exists()


def test_a_call_outside_is_held_while_it_runs_and_used_when_it_ends(
    run: Run, member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    during: list[Any] = []

    def look(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        during.extend((used(member, "calls", "day"), used(member, "running", "now")))
        return ToolOk({})

    offer(monkeypatch, outside_tool(look))
    call = carried_out(approved(run, member, "anna", 0))
    assert call.outcome == "ok"
    assert during == [(0, 1), (0, 1)]
    assert used(member, "calls", "day") == (1, 0)
    assert used(member, "running", "now") == (0, 0)
    assert Reservation.objects.get().state == "settled"


@pytest.mark.parametrize(
    "ends", [ToolFailure(Reason.COMMAND_FAILED, "No."), ValueError("no"), ToolOk({"ok": False})]
)
def test_what_was_dispatched_is_used_however_it_ended(
    run: Run, member: User, monkeypatch: pytest.MonkeyPatch, ends: Any
) -> None:
    def end(arguments: dict[str, Any], context: CallContext) -> Any:
        if isinstance(ends, Exception):
            raise ends
        return ends

    offer(monkeypatch, outside_tool(end))
    carried_out(approved(run, member, "anna", 0))
    assert used(member, "calls", "month") == (1, 0)


def test_a_spent_quota_refuses_the_call_with_its_reason_and_nothing_goes_out(
    run: Run, member: User, letters: Letters
) -> None:
    limit("calls", "day", 1)
    first, second = (approved(run, member, to, place) for place, to in enumerate(("anna", "tom")))
    assert carried_out(first).outcome == "ok"
    refused = carried_out(second)
    assert (refused.outcome, refused.reason) == ("refused", "quota_exceeded")
    assert (refused.domain, refused.rule) == ("boundary", "quota_holds_it")
    assert "It renews on" in projection_of(refused)["message"]
    told = RoomEvent.objects.filter(kind="call.settled").last()
    assert told is not None
    assert "It renews on" in told.data["explanation"]
    assert len(letters.sent) == 1
    # The yes was not spent on a call that never went out.
    assert Receipt.objects.get(call=second).spent_at is None
    assert used(member, "calls", "day") == (1, 0)


def test_a_call_that_finds_no_free_place_waits_for_one(
    run: Run, member: User, letters: Letters
) -> None:
    limit("running", "now", 0)
    call = approved(run, member, "anna", 0)
    with fenced(run_id=run.pk, fence=run.fence) as locked:
        park_run(run=locked)
    for _ in range(pipeline.MAX_ATTEMPTS + 3):
        waiting = carried_out(call)
        assert (waiting.state, waiting.attempts) == ("waiting", 0)
    assert letters.sent == []
    assert list(ready_calls(10)) == [call.pk]
    Quota.objects.update(most=1)
    assert carried_out(call).outcome == "ok"
    assert len(letters.sent) == 1


def test_a_worker_that_dies_mid_call_gives_its_place_back(
    member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        raise SystemExit

    offer(monkeypatch, outside_tool(die, effect=Effect.READ))
    agent = make_agent(member, slug="scribe")
    run = claimed_run(make_room(member, agent), agent, member)
    call = crossed(run, "send_letter", {"to": "anna"}).call
    with pytest.raises(SystemExit):
        pipeline.execute_waiting(call_id=call.pk, executor="worker")
    assert used(member, "running", "now") == (0, 1)
    assert list(left_behind(10)) == []
    Call.objects.filter(pk=call.pk).update(executor_expires_at="2020-01-01T00:00Z")
    assert carried_out(call).outcome == "abandoned"
    assert used(member, "running", "now") == (0, 0)
    assert used(member, "calls", "day") == (1, 0)
