"""A worker may die before any statement that it sends. What it began is finished, and only once."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest
from apps.artifacts.models import Artifact
from apps.artifacts.services import Provenance, create_artifact
from apps.boundary import pipeline
from apps.boundary.children import calls_of_ended_children, settle_child
from apps.boundary.selectors import ready_calls
from apps.boundary.services import decide_approval, stop_run
from apps.core.errors import Refusal
from apps.rooms.models import Room, RoomEvent
from apps.runs.models import Call, JournalEntry, Run, RunInput
from apps.runs.selectors import ready_runs
from apps.turns.engine import run_turn
from apps.turns.failing import MAX_PROVIDER_FAILURES
from apps.web.services import post_message
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import make_agent, make_run
from tests.turns.fake_model import FakeModel

pytestmark = pytest.mark.django_db(transaction=True)

NOTE = {"title": "A note", "kind": "markdown", "body": "x"}
PAST = "2020-01-01T00:00Z"
ASK = (
    '/call create_artifact {"title": "A note", "kind": "markdown", "body": "x"}\n'
    '/call send_letter {"to": "anna"}'
)


class Died(BaseException):
    """A worker, at once and without a word."""


@contextmanager
def dying_at(number: int) -> Iterator[None]:
    """Die instead of sending the statement of this number."""
    left = number

    def count(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal left
        if left == 0:
            raise Died
        left -= 1
        return execute(sql, params, many, context)

    with connection.execute_wrapper(count):
        yield


def dies_at_every_statement(work: Callable[[], Any], after: Callable[[], None]) -> int:
    """Let each attempt die one statement later than the last, until one lives; return how many."""
    for number in range(500):
        try:
            with dying_at(number):
                work()
        except Died:
            connection.close()
            after()
        else:
            return number
    raise AssertionError("It never came to its end.")


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Letters:
    letters = Letters(tmp_path / "letters")
    offer(monkeypatch, outside_tool(letters.handler))
    return letters


@pytest.fixture
def run(room: Room, agent: Agent, member: User, letters: Letters, settings: Any) -> Run:
    settings.KAIZEN_MODEL_URL = ""
    settings.KAIZEN_REHEARSAL = True
    return make_run(room, agent, member, ASK)


def claims_run_out() -> None:
    # A turn that gets nowhere is given up after a while; here only the deaths are looked at.
    Run.objects.filter(state="running").update(claim_expires_at=PAST, breaks=0)
    # What was handed on has no executor that could fall silent.
    Call.objects.exclude(executor_expires_at=None).update(executor_expires_at=PAST)
    Call.objects.update(attempts=0)


def go_on() -> None:
    for ident in list(ready_runs(10)):
        run_turn(run_id=ident)
    for ident in list(ready_calls(10)):
        pipeline.execute_waiting(call_id=ident, executor="worker")


def say_yes(member: User) -> None:
    asked = ApprovalRequest.objects.get()
    try:
        decide_approval(
            approval_id=asked.pk,
            member=member,
            approve=True,
            arguments_digest=asked.arguments_digest,
        )
    except Refusal:
        assert asked.state == "approved"


def told(kind: str) -> int:
    return RoomEvent.objects.filter(kind=kind).count()


def test_a_turn_dies_at_every_statement(run: Run, member: User, letters: Letters) -> None:
    died = dies_at_every_statement(lambda: run_turn(run_id=run.pk), claims_run_out)
    assert died > 20
    while Run.objects.filter(state__in=("queued", "running")).exists():
        claims_run_out()
        go_on()
    run.refresh_from_db()
    assert run.state == "parked"
    assert Artifact.objects.count() == 1
    assert letters.sent == []
    died = dies_at_every_statement(lambda: say_yes(member), lambda: None)
    assert died > 5
    go_on()
    go_on()
    run.refresh_from_db()
    assert (run.state, run.outcome) == ("finished", "completed")
    assert len(letters.sent) == 1
    calls, counts = Call.objects.count(), [told("call.proposed"), told("call.settled")]
    assert (calls, counts) == (2, [2, 2])
    assert [told("run.finished"), told("approval.requested"), told("approval.decided")] == [1, 1, 1]


def test_an_executor_dies_at_every_statement(run: Run, member: User, letters: Letters) -> None:
    """It dies once at each; what was sent and what is said of it agree every time."""
    go_on()
    say_yes(member)
    call = Call.objects.get(tool="send_letter")
    seen: set[str] = set()
    for number in range(200):
        try:
            with dying_at(number):
                pipeline.execute_waiting(call_id=call.pk, executor=f"worker{number}")
        except Died:
            connection.close()
        claims_run_out()
        while list(ready_calls(10)) and Call.objects.get(pk=call.pk).state == "dispatched":
            pipeline.execute_waiting(call_id=call.pk, executor="other")
        call.refresh_from_db()
        if call.state == "settled":
            seen.add(call.outcome)
            break
        assert letters.sent == []
    # Up to its dispatch nothing was sent, and from then on it is never tried again.
    assert seen in ({"ambiguous"}, {"ok"})
    pipeline.execute_waiting(call_id=call.pk, executor="late")
    assert len(letters.sent) <= 1
    go_on()
    run.refresh_from_db()
    assert (run.state, run.outcome) == (
        ("finished", "failed") if seen == {"ambiguous"} else ("finished", "completed")
    )


# --- the other states of a turn


def ends(run: Run) -> Run:
    """Let workers go on, each starting afresh, until the run has ended."""
    for _ in range(30):
        claims_run_out()
        go_on()
        for ident in list(calls_of_ended_children(10)):
            settle_child(call_id=ident)
        run.refresh_from_db()
        if run.state == "finished":
            return run
    raise AssertionError("It never came to its end.")


@pytest.fixture
def rehearsal(settings: Any) -> None:
    settings.KAIZEN_MODEL_URL = ""
    settings.KAIZEN_REHEARSAL = True


def test_a_worker_dies_at_every_statement_of_a_run_that_calls_an_agent(
    room: Room, agent: Agent, member: User, rehearsal: None
) -> None:
    make_agent(member, slug="helper")
    task = {"agent": "helper", "task": f"/call create_artifact {json.dumps(NOTE)}"}
    run = make_run(room, agent, member, f"/call invoke_agent {json.dumps(task)}")
    assert dies_at_every_statement(lambda: run_turn(run_id=run.pk), claims_run_out) > 20
    claims_run_out()
    go_on()
    child = Run.objects.get(parent=run)
    if child.state != "finished":
        assert dies_at_every_statement(lambda: run_turn(run_id=child.pk), claims_run_out) > 10
        for _ in range(5):
            claims_run_out()
            go_on()
    child.refresh_from_db()
    assert (child.state, child.outcome) == ("finished", "completed")
    call = Call.objects.get(run=run)
    dies_at_every_statement(lambda: settle_child(call_id=call.pk), lambda: None)
    assert ends(run).outcome == "completed"
    assert (Run.objects.count(), Artifact.objects.count()) == (2, 1)
    assert list(Call.objects.values_list("outcome", flat=True)) == ["ok", "ok"]
    assert [told("run.started"), told("run.finished"), told("call.settled")] == [2, 2, 2]


def test_stopping_dies_at_every_statement_and_stops_the_whole_line(
    room: Room, agent: Agent, member: User, rehearsal: None
) -> None:
    make_agent(member, slug="helper")
    task = {"agent": "helper", "task": "Write a note"}
    run = make_run(room, agent, member, f"/call invoke_agent {json.dumps(task)}")
    run_turn(run_id=run.pk)

    def stop() -> None:
        run.refresh_from_db()
        if run.state != "finished":
            stop_run(run_id=run.pk, member=member)

    assert dies_at_every_statement(stop, lambda: None) > 10
    assert set(Run.objects.values_list("outcome", flat=True)) == {"stopped"}
    assert not Call.objects.exclude(state="settled").exists()
    assert [told("run.finished"), told("call.settled")] == [2, 1]


def test_a_worker_dies_at_every_statement_of_a_run_that_is_steered(
    room: Room, agent: Agent, member: User, rehearsal: None
) -> None:
    run = make_run(room, agent, member, "/call list_available_agents {}")
    post_message(
        room_id=room.pk,
        member=member,
        text=f"/call create_artifact {json.dumps(NOTE)}",
        steer=True,
    )
    assert dies_at_every_statement(lambda: run_turn(run_id=run.pk), claims_run_out) > 20
    assert ends(run).outcome == "completed"
    assert RunInput.objects.get(steer=True).run_id == run.pk
    assert Artifact.objects.count() == told("run.steered") == 1
    assert JournalEntry.objects.filter(run=run, kind="input").count() == 2


def test_a_worker_dies_at_every_statement_of_reads_beside_each_other(
    room: Room, agent: Agent, member: User, rehearsal: None, settings: Any
) -> None:
    settings.AGENT_LOOP_MAX_PARALLEL_TOOLS = 4
    run = make_run(room, agent, member, "/call list_available_agents\n/with list_available_agents")
    assert dies_at_every_statement(lambda: run_turn(run_id=run.pk), claims_run_out) > 20
    assert ends(run).outcome == "completed"
    # A read whose worker died in the middle of it is abandoned, and said to be.
    calls = list(Call.objects.order_by("place").values_list("state", "outcome"))
    assert len(calls) == 2
    assert {state for state, _ in calls} == {"settled"}
    assert {outcome for _, outcome in calls} <= {"ok", "abandoned"}
    assert told("call.settled") == 2


def test_a_worker_dies_at_every_statement_of_a_model_that_fails(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    for _ in range(500):
        model.breaks_off("Half a thought")
    run = make_run(room, agent, member)
    Run.objects.filter(pk=run.pk).update(provider_failures=MAX_PROVIDER_FAILURES - 1)
    died = 0
    while run.state != "finished":
        Run.objects.filter(pk=run.pk).update(retry_at=None)
        died += dies_at_every_statement(lambda: run_turn(run_id=run.pk), claims_run_out)
        run.refresh_from_db()
    assert died > 20
    assert (run.outcome, told("run.finished"), told("message.posted")) == ("failed", 1, 1)
    assert JournalEntry.objects.filter(run=run, kind="assistant").count() == 1


def test_a_worker_dies_at_every_statement_of_a_compaction(
    room: Room, agent: Agent, member: User, model: FakeModel
) -> None:
    Agent.objects.filter(pk=agent.pk).update(context_tokens=2_000)
    long = create_artifact(
        owner=member,
        room_id=room.pk,
        title="Long",
        kind="markdown",
        language="",
        body="word " * 3_000,
        provenance=Provenance(uuid.uuid4(), uuid.uuid4(), "", ""),
    )
    model.answers_for_ever(("read_artifact", {"artifact_id": str(long.artifact_id)}), "Read.")
    run = make_run(room, agent, member)
    assert dies_at_every_statement(lambda: run_turn(run_id=run.pk), claims_run_out) > 20
    assert ends(run).outcome == "completed"
    assert JournalEntry.objects.filter(run=run, kind="compaction").count() == 1
    assert list(Call.objects.values_list("outcome", flat=True)) == ["ok"]
