"""A program that a call runs may make reads of its run, each decided anew, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.artifacts.models import Artifact
from apps.audit.models import AuditRow
from apps.boundary import pipeline
from apps.boundary.inner import FIRST_PLACE, LISTING, MAX_INNER, InnerCalls
from apps.domain.tooling import Effect, ToolOk
from apps.rooms.models import Room
from apps.rooms.services import close_room
from apps.runs.models import Call, Run
from apps.tools.contract import CallContext, InnerAnswer
from apps.turns.context import read_conversation
from tests.factories.effects import offer, outside_tool, own_tool
from tests.factories.rooms import claimed_run, crossed, make_member, make_room

pytestmark = pytest.mark.django_db(transaction=True)

Program = Callable[[Callable[..., InnerAnswer], CallContext], Any]


@pytest.fixture
def member() -> User:
    return make_member("mara")


@pytest.fixture
def room(member: User, agent: Agent) -> Room:
    return make_room(member, agent)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, member: User, agent: Agent, room: Room) -> Any:
    """Let a program run as the one call of a run, and return the run, the call and its findings."""

    def run_program(
        program: Program, *tools: Any, inner: Any = InnerCalls
    ) -> tuple[Run, Call, Any]:
        found: list[Any] = []

        def handler(arguments: dict[str, Any], context: CallContext) -> ToolOk:
            def call(name: str, **words: Any) -> InnerAnswer:
                return context.call_tool(name, json.dumps(words).encode())

            found.append(program(call, context))
            return ToolOk({"ran": True})

        outer = outside_tool(handler, name="program", effect=Effect.READ)
        offer(monkeypatch, outer, *tools)
        run = claimed_run(room, agent, member)
        call = crossed(run, "program", {"to": "x"}).call
        pipeline.execute_waiting(call_id=call.pk, executor="worker", inner=inner)
        call.refresh_from_db()
        return run, call, found[0]

    return run_program


def test_a_program_reads_through_the_boundary_as_a_call_of_its_call(runs: Any) -> None:
    run, call, answer = runs(lambda call, _: call("list_available_agents"))
    assert answer.ok
    assert "agents" in json.loads(answer.value)
    inner = Call.objects.get(parent=call)
    assert (inner.tool, inner.state, inner.outcome) == ("list_available_agents", "settled", "ok")
    assert (inner.step, inner.place) == (call.step, FIRST_PLACE)
    assert AuditRow.objects.filter(action="call.settled", subject=f"call:{inner.pk}").count() == 1
    # The model made one call and sees one.
    assert list(read_conversation(run).calls) == [(call.step, call.place)]


def test_what_is_listed_is_what_the_frozen_catalog_lets_a_program_read(runs: Any) -> None:
    own = own_tool(lambda arguments, context: ToolOk({"n": 1}), name="count")
    _, _, answer = runs(lambda call, _: call(LISTING), own)
    listed = {one["name"]: one for one in json.loads(answer.value)}
    assert {"count", "list_available_agents"} <= set(listed)
    assert "create_artifact" not in listed
    assert set(listed["count"]) == {"name", "description", "input_schema"}


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("create_artifact", {"title": "a", "kind": "markdown", "body": "b"}),
        ("send_letter", {"to": "anna"}),
        ("no_such_tool", {}),
        ("list_available_agents", {"no_such_argument": 1}),
    ],
)
def test_what_writes_asks_or_is_not_offered_is_refused_and_recorded(
    runs: Any, tool: str, words: dict[str, Any]
) -> None:
    sent: list[str] = []
    letter = outside_tool(lambda a, c: ToolOk({"sent": sent.append(a["to"])}))
    _, call, answer = runs(lambda ask, _: ask(tool, **words), letter)
    inner = Call.objects.get(parent=call)
    assert not answer.ok
    assert (inner.state, inner.outcome) == ("settled", "refused")
    assert AuditRow.objects.filter(subject=f"call:{inner.pk}", outcome="refused").exists()
    assert not sent
    assert not Artifact.objects.exists()


def test_each_callback_is_decided_anew(runs: Any, room: Room, member: User) -> None:
    def program(call: Any, context: CallContext) -> Any:
        first = call("list_available_agents").ok
        Agent.objects.update(enabled=False)
        second = call("list_available_agents").ok
        Agent.objects.update(enabled=True)
        User.objects.filter(pk=member.pk).update(is_active=False)
        return first, second, call("list_available_agents").ok

    _, _, found = runs(program)
    assert found == (True, False, False)


def test_in_a_room_that_was_closed_nothing_more_is_read(
    runs: Any, room: Room, member: User
) -> None:
    def program(call: Any, context: CallContext) -> Any:
        close_room(room_id=room.pk, actor=member)
        return call("list_available_agents")

    assert not runs(program)[2].ok


def test_a_tool_that_changed_since_the_run_began_is_refused(
    runs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = own_tool(lambda arguments, context: ToolOk({"n": 1}), name="count")

    def program(call: Any, context: CallContext) -> Any:
        before = call("count").ok
        changed = own_tool(tool.handler, name="count", version="2")
        offer(monkeypatch, changed)
        listed = [one["name"] for one in json.loads(call(LISTING).value)]
        return before, call("count").ok, "count" in listed

    assert runs(program, tool)[2] == (True, False, False)


def test_a_program_makes_a_bounded_number_of_calls(runs: Any) -> None:
    _, call, found = runs(lambda ask, _: [ask("no_such_tool").ok for _ in range(MAX_INNER + 3)])
    assert len(found) == MAX_INNER + 3
    assert Call.objects.filter(parent=call).count() == MAX_INNER


def test_nothing_can_be_called_once_the_call_is_taken_from_its_executor(runs: Any) -> None:
    def program(call: Any, context: CallContext) -> Any:
        Call.objects.filter(pk=context.call_id).update(executor="another")
        answer = call("list_available_agents")
        Call.objects.filter(pk=context.call_id).update(executor="worker")
        return answer

    _, call, answer = runs(program)
    assert not answer.ok
    assert not Call.objects.filter(parent=call).exists()


def test_without_a_door_nothing_can_be_called(runs: Any) -> None:
    _, call, answer = runs(
        lambda ask, _: ask("list_available_agents"), inner=pipeline.no_inner_door
    )
    assert (answer.ok, answer.value) == (False, b'"No tool can be called from here."')
    assert not Call.objects.filter(parent=call).exists()
