"""A call has a time; what overruns it, or is not waited for any more, is ended and lets go."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.artifacts.models import Artifact
from apps.boundary import pipeline
from apps.boundary.external import open_external_run
from apps.boundary.services import stop_run
from apps.core.deadlines import Deadline
from apps.core.statements import OutOfTime, bounded
from apps.domain.tooling import (
    DEFAULT_TIMEOUT_S,
    BadSpecification,
    Effect,
    Reason,
    ToolFailure,
    ToolOk,
)
from apps.rooms.models import Room
from apps.rooms.services import close_room, remove_participant, room_last
from apps.runs.bodies import projection_of
from apps.runs.models import Call, Run
from apps.tools.contract import CallContext
from tests.factories.effects import offer, outside_tool, own_tool
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def member(transactional_db: Any) -> User:
    return make_member("mara")


@pytest.fixture
def agent(member: User) -> Agent:
    return make_agent(member, slug="scribe")


@pytest.fixture
def room(member: User, agent: Agent) -> Room:
    return make_room(member, agent, make_member("tomas"))


def asks(statement: str, *, times: int = 1) -> Callable[..., ToolOk]:
    def handle(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        for _ in range(times):
            with connection.cursor() as cursor:
                cursor.execute(statement)
        return ToolOk({})

    return handle


def timeout_now() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        return str(cursor.fetchone()[0])


# --- the database's door


@pytest.mark.parametrize(
    ("statement", "times"),
    [
        ("SELECT pg_sleep(60)", 1),
        # Many short ones add up too.
        ("SELECT pg_sleep(0.1)", 600),
    ],
)
def test_a_tool_of_ours_that_overruns_its_time_is_ended_by_the_database(
    room: Room,
    agent: Agent,
    member: User,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    times: int,
) -> None:
    offer(monkeypatch, own_tool(asks(statement, times=times), timeout_s=0.4))
    run = claimed_run(room, agent, member)
    call = crossed(run, "own", {}).call
    assert (call.outcome, call.reason, call.domain) == ("timeout", "timeout", "tool")
    said = projection_of(call)["message"]
    assert said == "The tool did not finish within 0.4 s. Nothing was saved."
    assert "pg_sleep" not in str(projection_of(call))
    # The run goes on as if nothing had been, with its connection and without the limit.
    assert timeout_now() == "0"
    assert crossed(run, "list_available_agents", {}, step=2).call.outcome == "ok"


def test_a_write_that_overruns_its_time_saves_nothing(
    room: Room, agent: Agent, member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handle(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        from apps.tools.builtin.artifacts import create_artifact

        create_artifact({"title": "A note", "kind": "markdown", "body": "Hello"}, context)
        return asks("SELECT pg_sleep(60)")(arguments, context)

    offer(monkeypatch, own_tool(handle, effect=Effect.WRITE, timeout_s=0.4))
    call = crossed(claimed_run(room, agent, member), "own", {}).call
    assert (call.outcome, call.reason) == ("timeout", "timeout")
    assert not Artifact.objects.exists()


def test_the_rest_of_the_transaction_is_not_bound_by_the_tools_time(
    room: Room, agent: Agent, member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def handle(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        seen.append(timeout_now())
        return ToolOk({})

    offer(monkeypatch, own_tool(handle, timeout_s=7))
    from apps.boundary.steps import record

    settle = record.settle_call

    def look(**words: Any) -> Any:
        seen.append(timeout_now())
        return settle(**words)

    monkeypatch.setattr(record, "settle_call", look)
    crossed(claimed_run(room, agent, member), "own", {})
    inside, after = seen
    assert inside in {"7s", *(f"{ms}ms" for ms in range(1000, 7001))}
    assert after == "0"


def test_the_bound_costs_no_statement_of_its_own(member: User) -> None:
    def count(within: Any) -> int:
        with CaptureQueriesContext(connection) as queries, room_last(), within, room_last():
            User.objects.count()
        return len(queries)

    from contextlib import nullcontext

    assert count(bounded(Deadline.after(30))) == count(nullcontext())


def test_what_asks_the_database_after_its_time_is_told_so(member: User) -> None:
    with pytest.raises(OutOfTime), room_last(), bounded(Deadline.after(0)), room_last():
        User.objects.count()
    with room_last():
        assert timeout_now() == "0"
        assert User.objects.exists()


# --- declared, default and ceiling


def test_a_tool_that_says_nothing_gets_a_conservative_time_and_none_more_than_the_ceiling() -> None:
    assert own_tool(asks("SELECT 1")).spec.timeout_s == DEFAULT_TIMEOUT_S == 30
    assert own_tool(asks("SELECT 1"), timeout_s=240.0).spec.timeout_s == 240
    with pytest.raises(BadSpecification):
        own_tool(asks("SELECT 1"), timeout_s=240.1)


def test_a_tool_is_told_how_much_of_its_time_is_left(
    room: Room, agent: Agent, member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[float] = []

    def handle(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        left.append(context.deadline.remaining)
        return ToolOk({})

    offer(monkeypatch, own_tool(handle, timeout_s=12.0))
    crossed(claimed_run(room, agent, member), "own", {})
    assert 0 < left[0] <= 12


# --- outside: an overrun and a caller that is gone are failures of the call, not refusals


def waits_until_cancelled(began: list[str]) -> Callable[..., ToolFailure]:
    def handle(arguments: dict[str, Any], context: CallContext) -> ToolFailure:
        began.append("began")
        while not context.cancelled():
            assert not context.deadline.passed, "Nobody told the tool to stop."
            time.sleep(0.02)
        return ToolFailure(Reason.CANCELLED, "The call was cancelled.")

    return handle


def test_a_tool_outside_that_overruns_its_time_is_a_failure_of_the_tool(
    room: Room, agent: Agent, member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = ToolFailure(Reason.TIMEOUT, "It took too long.")
    offer(monkeypatch, outside_tool(lambda a, c: late, effect=Effect.READ))
    call = crossed(claimed_run(room, agent, member), "send_letter", {"to": "anna"}).call
    pipeline.execute_waiting(call_id=call.pk, executor="worker")
    call.refresh_from_db()
    assert (call.outcome, call.reason, call.domain) == ("timeout", "timeout", "tool")


def leaves(room: Room, run: Run, member: User) -> None:
    remove_participant(room_id=room.pk, actor=member, username="tomas")


def closes(room: Room, run: Run, member: User) -> None:
    close_room(room_id=room.pk, actor=member)


def stops(room: Room, run: Run, member: User) -> None:
    stop_run(run_id=run.pk, member=member)


def lets_the_token_expire(room: Room, run: Run, member: User) -> None:
    Run.objects.filter(pk=run.pk).update(token_expires_at="2020-01-01T00:00Z")


def is_shut_out(room: Room, run: Run, member: User) -> None:
    User.objects.filter(username="tomas").update(is_active=False)


def is_over_time(room: Room, run: Run, member: User) -> None:
    Run.objects.filter(pk=run.pk).update(deadline_at="2020-01-01T00:00Z")


@pytest.mark.parametrize(
    "happens", [stops, leaves, closes, lets_the_token_expire, is_shut_out, is_over_time]
)
def test_a_tool_that_nobody_waits_for_any_more_is_told_to_stop(
    room: Room,
    agent: Agent,
    member: User,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[..., None],
) -> None:
    began: list[str] = []

    def handle(arguments: dict[str, Any], context: CallContext) -> ToolFailure:
        happens(room, run, member)
        connection.close()
        return waits_until_cancelled(began)(arguments, context)

    offer(monkeypatch, outside_tool(handle, effect=Effect.READ))
    guest = User.objects.get(username="tomas")
    opened = open_external_run(room_id=room.pk, member=guest, agent_slug=agent.slug)
    run = Run.objects.select_related("agent", "member", "room").get(pk=opened.run.pk)
    call = crossed(run, "send_letter", {"to": "anna"}).call
    pipeline.execute_waiting(call_id=call.pk, executor="worker")
    call = Call.objects.get(pk=call.pk)
    assert began == ["began"]
    assert (call.state, call.outcome, call.reason) == ("settled", "stopped", "cancelled")
    assert call.executor == ""
