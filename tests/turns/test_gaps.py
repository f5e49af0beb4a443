"""An answer may come at any moment, also between a question's commit and the turn's parking."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from psycopg.pq import TransactionStatus

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest
from apps.boundary import pipeline
from apps.boundary.selectors import ready_calls
from apps.boundary.services import decide_approval
from apps.rooms.models import Room
from apps.runs.models import Call, Run
from apps.runs.selectors import ready_runs
from apps.turns.engine import run_turn
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import make_run

pytestmark = pytest.mark.django_db(transaction=True)

ASK = '/call send_letter {"to": "anna"}'


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


def beside(work: Callable[[], Any]) -> Future[Any]:
    """Let somebody else do something, with a connection of their own."""

    def alone() -> Any:
        try:
            return work()
        finally:
            connection.close()

    pool = ThreadPoolExecutor(1)
    started = pool.submit(alone)
    pool.shutdown(wait=False)
    return started


def asked_already() -> bool:
    """Whether anybody else can see the question."""
    seen = beside(lambda: ApprovalRequest.objects.filter(state="pending").exists())
    return bool(seen.result(60))


@contextmanager
def in_the_gap(work: Callable[[], None]) -> Iterator[list[str]]:
    """Do something else right before the first statement that the turn sends after its question."""
    told: list[str] = []

    def between(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        idle = connection.connection.info.transaction_status == TransactionStatus.IDLE
        if not told and idle and asked_already():
            told.append(sql)
            work()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(between):
        yield told


def decide(member: User, *, yes: bool) -> None:
    asked = ApprovalRequest.objects.get()
    decide_approval(
        approval_id=asked.pk,
        member=member,
        approve=yes,
        arguments_digest=asked.arguments_digest,
    )


def carry_out() -> None:
    for ident in list(ready_calls(10)):
        pipeline.execute_waiting(call_id=ident, executor="worker")


def to_its_end(run: Run) -> Run:
    for _ in range(10):
        carry_out()
        for ident in list(ready_runs(10)):
            run_turn(run_id=ident)
        run.refresh_from_db()
        if run.state == "finished":
            return run
    raise AssertionError(f"The run stays {run.state}.")


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_yes_before_the_turn_parks_is_not_lost(
    run: Run, member: User, letters: Letters, carried_out: bool
) -> None:
    def answer() -> None:
        decide(member, yes=True)
        if carried_out:
            carry_out()

    def meanwhile() -> None:
        beside(answer).result(60)

    with in_the_gap(meanwhile) as told:
        run_turn(run_id=run.pk)
    assert told
    assert to_its_end(run).outcome == "completed"
    assert len(letters.sent) == 1
    assert Call.objects.get().outcome == "ok"


def test_a_no_before_the_turn_parks_is_not_lost(run: Run, member: User, letters: Letters) -> None:
    def meanwhile() -> None:
        beside(lambda: decide(member, yes=False)).result(60)

    with in_the_gap(meanwhile) as told:
        run_turn(run_id=run.pk)
    assert told
    to_its_end(run)
    assert letters.sent == []
    assert Call.objects.get().outcome == "denied"


def test_a_yes_that_is_carried_out_while_the_turn_parks_wakes_it(
    run: Run, member: User, letters: Letters
) -> None:
    others: list[Future[Any]] = []

    def answer() -> None:
        decide(member, yes=True)
        carry_out()

    def meanwhile() -> None:
        # From here on both go on, in whatever order the database lets them.
        others.append(beside(answer))

    with in_the_gap(meanwhile):
        run_turn(run_id=run.pk)
    others[0].result(60)
    assert to_its_end(run).outcome == "completed"
    assert len(letters.sent) == 1
