"""A worker may die before any statement that it sends. What it began is finished, and only once."""

from __future__ import annotations

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
from apps.boundary import pipeline
from apps.boundary.selectors import ready_calls
from apps.boundary.services import decide_approval
from apps.core.errors import Refusal
from apps.rooms.models import Room, RoomEvent
from apps.runs.models import Call, Run
from apps.runs.selectors import ready_runs
from apps.turns.engine import run_turn
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import make_run

pytestmark = pytest.mark.django_db(transaction=True)

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
    Call.objects.filter(state="dispatched").update(executor_expires_at=PAST)
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
