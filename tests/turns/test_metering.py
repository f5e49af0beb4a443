"""A step with a model is held before it is asked, and settled from what its provider reports."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.core import metrics
from apps.quotas.models import Price, Quota, Reservation
from apps.quotas.selectors import usage_of
from apps.rooms.models import Room, RoomEvent
from apps.runs.models import JournalEntry, Run
from apps.turns.engine import run_turn
from tests.factories.rooms import make_run
from tests.turns.fake_model import FakeModel


def limit(unit: str, period: str, most: int, subject: str = "member") -> Quota:
    return Quota.objects.create(subject=subject, unit=unit, period=period, most=most)


def used(member: User, unit: str, period: str = "day") -> tuple[int, int]:
    use = next(one for one in usage_of(member) if (one.unit, one.period) == (unit, period))
    return use.used, use.held


def turn(room: Room, agent: Agent, member: User) -> Run:
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    return run


def test_a_step_takes_what_its_provider_reports(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    Price.objects.create(model_name="fake", input_price=1_000_000, output_price=2_000_000)
    model.usage = {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150}
    model.calls(("list_available_agents", {}))
    model.says("Done.")
    read = metrics.MODEL_TOKENS.labels("read")._value.get()
    run = turn(room, agent, member)
    assert run.outcome == "completed"
    assert model.asked[0]["stream_options"] == {"include_usage": True}
    assert used(member, "tokens") == (300, 0)
    assert used(member, "money") == (360, 0)
    assert used(member, "running", "now") == (0, 0)
    assert metrics.MODEL_TOKENS.labels("read")._value.get() == read + 240
    states = Reservation.objects.values_list("state", "model_name", "correlation_id")
    assert set(states) == {("settled", "fake", run.correlation_id)}


@pytest.mark.parametrize(
    "report",
    [
        None,
        {"prompt_tokens": -5, "completion_tokens": 1},
        {"prompt_tokens": "120", "completion_tokens": 1},
        {"prompt_tokens": True, "completion_tokens": 1},
        {"prompt_tokens": 10**12, "completion_tokens": 1},
        {"total_tokens": 3},
    ],
)
def test_without_a_report_that_can_be_true_the_reservation_stands(
    room: Room, agent: Agent, member: User, model: FakeModel, report: Any
) -> None:
    model.usage = report
    model.says("Good morning.")
    assert turn(room, agent, member).outcome == "completed"
    held = Reservation.objects.get()
    assert held.state == "stands"
    assert used(member, "tokens") == (held.reserved["tokens"], 0)
    assert held.reserved["tokens"] > 4_000


@pytest.mark.parametrize("subject", ["member", "agent"])
def test_a_run_whose_quota_is_spent_asks_no_model_and_says_when_it_renews(
    room: Room, agent: Agent, member: User, model: FakeModel, subject: str
) -> None:
    limit("tokens", "day", 100, subject)
    run = turn(room, agent, member)
    assert (run.state, run.outcome) == ("finished", "failed")
    assert "It renews on" in run.explanation
    assert model.asked == []
    assert used(member, "tokens") == (0, 0)
    note = JournalEntry.objects.get(run=run, kind="note")
    assert note.body["event"] == "quota_exceeded"
    finished = RoomEvent.objects.filter(room=room, kind="run.finished").last()
    assert finished is not None
    assert finished.data["explanation"] == run.explanation


def test_a_run_that_finds_too_much_running_waits_its_turn(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    quota = limit("running", "now", 0)
    run = turn(room, agent, member)
    assert (run.state, run.breaks, run.provider_failures) == ("queued", 0, 0)
    assert run.retry_at is not None
    assert model.asked == []
    Quota.objects.filter(pk=quota.pk).update(most=1)
    Run.objects.filter(pk=run.pk).update(retry_at=None)
    model.says("Good morning.")
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert run.outcome == "completed"


def test_a_request_that_the_provider_refused_takes_nothing(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.fails(400)
    assert turn(room, agent, member).outcome == "failed"
    assert Reservation.objects.get().state == "released"
    assert used(member, "tokens") == (0, 0)


def test_a_provider_that_cannot_be_reached_takes_nothing(
    room: Room, agent: Agent, member: User, settings: Any
) -> None:
    settings.KAIZEN_MODEL_URL = "http://127.0.0.1:1/v1"
    turn(room, agent, member)
    assert Reservation.objects.get().state == "released"


def test_a_provider_that_failed_over_the_work_may_have_done_some(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.breaks_off("Good mor")
    turn(room, agent, member)
    assert Reservation.objects.get().state == "stands"


def test_an_answer_that_was_cut_still_takes_what_was_reported(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.sends(
        '{"choices":[{"index":0,"delta":{"content":"Once upon"},"finish_reason":"length"}]}',
        '{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}',
        "[DONE]",
    )
    model.says(" a time.")
    turn(room, agent, member)
    first = Reservation.objects.order_by("created_at").first()
    assert first is not None
    assert first.used == {"tokens": 9}


def test_the_rehearsal_takes_no_tokens(
    room: Room, agent: Agent, member: User, settings: Any
) -> None:
    settings.KAIZEN_MODEL_URL = ""
    settings.KAIZEN_REHEARSAL = True
    assert turn(room, agent, member).outcome == "completed"
    assert Reservation.objects.get().state == "settled"
    assert used(member, "tokens") == (0, 0)
