"""What becomes of an answer that fails: a bounded retry, a smaller request, or what was said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.artifacts.models import Artifact
from apps.rooms.models import Room, RoomEvent
from apps.runs.models import Call, JournalEntry, Run
from apps.turns.engine import run_turn
from apps.turns.failing import MAX_CONTINUED, MAX_RETRY_AFTER
from apps.turns.openai_client import seconds_of
from tests.factories.rooms import make_run
from tests.turns.fake_model import FakeModel

pytestmark = pytest.mark.django_db(transaction=True)

PAST = "2020-01-01T00:00Z"
NOTE = '{"title": "A note", "kind": "markdown", "body": "# Hello"}'


def said() -> list[dict[str, Any]]:
    return [
        event.data
        for event in RoomEvent.objects.filter(kind="message.posted", data__author__kind="agent")
    ]


def again(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(retry_at=PAST)
    run_turn(run_id=run.pk)


def test_each_failure_leaves_one_diagnostic_without_what_was_asked_or_answered(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.fails(422)
    run = make_run(room, agent, member, "A very private question")
    run_turn(run_id=run.pk)
    note = JournalEntry.objects.get(run=run, kind="note")
    assert note.body == {
        "event": "provider_failed",
        "step": 1,
        "kind": "status",
        "status": 422,
        "deterministic": True,
        "failures": 1,
    }
    run.refresh_from_db()
    assert (run.state, run.outcome) == ("finished", "failed")
    run_turn(run_id=run.pk)
    assert len(model.asked) == 1


def test_a_server_that_says_when_to_come_back_is_obeyed_within_bounds(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    for asked_for, waits in (("60", 60.0), ("999999", MAX_RETRY_AFTER), ("soon", 8.0)):
        model.fails(429, retry_after=asked_for)
        run = Run.objects.first() or make_run(room, agent, member)
        Run.objects.filter(pk=run.pk).update(retry_at=PAST)
        before = timezone.now()
        run_turn(run_id=run.pk)
        run.refresh_from_db()
        assert run.retry_at is not None
        assert waits <= (run.retry_at - before).total_seconds() < waits + 30


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("0", 0), ("1.5", 1.5), (" 7 ", 7), ("", 0), ("-3", 0), ("1e9", 0), ("tomorrow", 0)],
)
def test_a_retry_after_is_read_in_seconds(header: str, seconds: float) -> None:
    assert seconds_of(header) == seconds


def test_a_retry_after_is_read_as_a_date() -> None:
    later = datetime.now(UTC) + timedelta(seconds=90)
    assert 60 < seconds_of(format_datetime(later, usegmt=True)) <= 90
    assert seconds_of("Wed, 21 Oct 2015 07:28:00 GMT") == 0


def test_what_was_said_of_an_answer_that_never_came_whole_is_kept_and_marked(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    for text in ("Half a", "Half a thought, and more", "Ha", "Half"):
        model.breaks_off(text)
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert said() == []
    for _ in range(3):
        again(run)
    run.refresh_from_db()
    assert (run.outcome, len(model.asked)) == ("failed", 4)
    assert [(one["text"], one["broken_off"]) for one in said()] == [
        ("Half a thought, and more", True)
    ]
    entry = JournalEntry.objects.get(run=run, kind="assistant")
    assert entry.body["broken"] is True


def test_what_was_said_of_a_broken_answer_is_held_against_the_record_too(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    for _ in range(4):
        model.breaks_off("I saved the file to your library. And")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    for _ in range(3):
        again(run)
    assert "nothing was made, changed or sent" in said()[0]["text"]


def test_of_a_broken_answer_only_complete_calls_are_used(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.breaks_off("Two notes.", ("create_artifact", NOTE), ("create_artifact", NOTE[:-4]))
    model.says("One was made.")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert [call.outcome for call in Call.objects.all()] == ["ok"]
    assert Artifact.objects.count() == 1
    run.refresh_from_db()
    assert run.outcome == "completed"
    assert JournalEntry.objects.filter(run=run, kind="assistant").first().body["broken"]  # type: ignore[union-attr]


@pytest.mark.parametrize("arguments", ["", '{"title": "A', "[1]", '{"a": 1}}', '{"a": 1, "a": 2}'])
def test_nothing_partial_is_executed(
    room: Room, agent: Agent, member: User, model: FakeModel, arguments: str
) -> None:
    model.breaks_off("", ("create_artifact", arguments), ("create_artifact", NOTE))
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert not Call.objects.exists()
    run.refresh_from_db()
    assert (run.state, run.provider_failures) == ("queued", 1)


def test_an_answer_at_its_length_limit_is_gone_on_with(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.is_cut("The first half,")
    model.says(" and the second.")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert [(one["text"], one.get("goes_on")) for one in said()] == [
        ("The first half,", True),
        (" and the second.", None),
    ]
    read = model.asked[1]["messages"]
    assert read[-2] == {"role": "assistant", "content": "The first half,"}
    assert "Go on exactly where it stopped" in read[-1]["content"]
    run.refresh_from_db()
    assert run.outcome == "completed"


def test_an_answer_is_gone_on_with_only_so_often(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    for number in range(MAX_CONTINUED + 1):
        model.is_cut(f"Part {number}")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert (run.outcome, len(model.asked)) == ("failed", MAX_CONTINUED + 1)
    assert said()[-1]["broken_off"] is True


def test_a_call_cut_at_the_length_limit_is_not_made(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    model.is_cut("Making it.", ("create_artifact", NOTE[:30]))
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert (run.outcome, Call.objects.count()) == ("failed", 0)
    assert said()[0]["broken_off"] is True


# --- budgets


def test_a_model_that_says_nothing_for_too_long_ends_the_turn(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    Agent.objects.filter(pk=agent.pk).update(inactivity_s=1)
    model.keeps_silent(6)
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert (run.outcome, len(model.asked)) == ("failed", 1)
    assert "said nothing for 1 seconds" in run.explanation


def test_a_turn_that_has_used_its_time_ends_and_keeps_what_was_read(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    Agent.objects.filter(pk=agent.pk).update(budget_s=2)
    model.script.append([{"content": "So far."}, {"content": " And more.", "pause": 30.0}])
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert run.outcome == "failed"
    assert "2 seconds" in run.explanation
    assert [(one["text"], one["broken_off"]) for one in said()] == [("So far.", True)]


def test_time_is_counted_over_every_worker_that_held_the_run(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    Agent.objects.filter(pk=agent.pk).update(budget_s=50)
    model.fails(500)
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert run.budget_s == 50
    assert run.spent_ms > 0
    Run.objects.filter(pk=run.pk).update(spent_ms=50_000)
    again(run)
    run.refresh_from_db()
    assert (run.outcome, len(model.asked)) == ("failed", 1)


def test_the_wait_for_a_person_costs_no_time(
    room: Room, agent: Agent, member: User, model: FakeModel, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
) -> None:  # fmt: skip
    from tests.factories.effects import Letters, offer, outside_tool

    offer(monkeypatch, outside_tool(Letters(tmp_path / "letters").handler))
    model.calls(("send_letter", {"to": "anna"}))
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    spent = run.spent_ms
    Run.objects.filter(pk=run.pk).update(created_at=PAST)
    run.refresh_from_db()
    assert (run.state, run.spent_ms) == ("parked", spent)
