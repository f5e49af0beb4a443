"""Reads run beside each other only where the server lets them; everything else is a barrier."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest
from apps.artifacts.models import Artifact
from apps.boundary.pipeline import execute_waiting
from apps.boundary.selectors import ready_calls
from apps.domain.tooling import Effect, ToolOk
from apps.rooms.models import Room, RoomEvent
from apps.runs.models import Call, Run
from apps.turns.calls import MOST_TOGETHER, most_together
from apps.turns.engine import run_turn
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import make_run
from tests.turns.fake_model import FakeModel
from tests.turns.test_rules import stand_in

pytestmark = pytest.mark.django_db(transaction=True)

NOTE = {"title": "A note", "kind": "markdown", "body": "# Hello"}


class Meeting:
    """Reads that wait for each other: they all get through only if they run side by side."""

    def __init__(self, expected: int) -> None:
        self.barrier = threading.Barrier(expected, timeout=60)
        self.lock = threading.Lock()
        self.at_once = self.most = 0

    def meet(self, arguments: Any, context: Any) -> ToolOk:
        """Wait for the others."""
        with self.lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        try:
            self.barrier.wait()
        finally:
            with self.lock:
                self.at_once -= 1
        return ToolOk({"place": arguments["place"]})

    def look(self, arguments: Any, context: Any) -> ToolOk:
        """Count who is here, and go on."""
        with self.lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        with self.lock:
            self.at_once -= 1
        return ToolOk({"place": arguments.get("place", 0)})


def outcomes() -> list[tuple[str, str]]:
    return list(Call.objects.order_by("step", "place").values_list("tool", "outcome"))


def test_reads_that_may_run_beside_each_other_do_and_are_told_in_their_order(
    room: Room, agent: Agent, member: User, model: FakeModel, settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    settings.AGENT_LOOP_MAX_PARALLEL_TOOLS = 3
    meeting = Meeting(3)
    offer(monkeypatch, stand_in("meet", meeting.meet, parallel_safe=True))
    model.calls(*[("meet", {"place": place}) for place in range(3)])
    model.says("All three came.")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert outcomes() == [("meet", "ok")] * 3
    assert meeting.most == 3
    told = [json.loads(m["content"]) for m in model.asked[1]["messages"] if m["role"] == "tool"]
    assert [one["value"]["place"] for one in told] == [0, 1, 2]
    settled = RoomEvent.objects.filter(kind="call.settled").order_by("position")
    calls = list(Call.objects.order_by("place").values_list("pk", flat=True))
    assert [event.data["call"] for event in settled] == [str(pk) for pk in calls]


@pytest.mark.parametrize("why", ["server", "agent"])
def test_by_default_or_where_it_is_switched_off_one_follows_the_other(
    room: Room, agent: Agent, member: User, model: FakeModel, settings: Any,
    monkeypatch: pytest.MonkeyPatch, why: str,
) -> None:  # fmt: skip
    if why == "agent":
        settings.AGENT_LOOP_MAX_PARALLEL_TOOLS = 8
        Agent.objects.filter(pk=agent.pk).update(parallel_tool_calls=False)
    meeting = Meeting(2)
    offer(monkeypatch, stand_in("look", meeting.look, parallel_safe=True))
    model.calls(*[("look", {"place": place}) for place in range(4)])
    model.says("Seen.")
    run_turn(run_id=make_run(room, agent, member).pk)
    assert outcomes() == [("look", "ok")] * 4
    assert meeting.most == 1
    assert set(Call.objects.values_list("executor", flat=True)) == {""}


@pytest.mark.parametrize(
    ("allowed", "pool", "together"),
    [(1, 8, 1), (3, 8, 3), (100, 100, MOST_TOGETHER), (8, 8, 4), (8, 2, 1), (8, 1, 1)],
)
def test_never_more_than_eight_nor_than_half_of_the_connections(
    allowed: int, pool: int, together: int
) -> None:
    assert most_together(allowed, pool=pool) == together


def test_more_reads_than_may_run_at_once_run_in_rounds(
    room: Room, agent: Agent, member: User, model: FakeModel, settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    settings.AGENT_LOOP_MAX_PARALLEL_TOOLS = 100
    settings.KAIZEN_DB_POOL = 4
    meeting = Meeting(2)
    offer(monkeypatch, stand_in("meet", meeting.meet, parallel_safe=True))
    model.calls(*[("meet", {"place": place}) for place in range(6)])
    model.says("Three rounds of two.")
    run_turn(run_id=make_run(room, agent, member).pk)
    assert outcomes() == [("meet", "ok")] * 6
    assert meeting.most == 2


def test_a_write_between_reads_is_a_barrier(
    room: Room, agent: Agent, member: User, model: FakeModel, settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    settings.AGENT_LOOP_MAX_PARALLEL_TOOLS = 8
    seen: list[int] = []

    def count(arguments: Any, context: Any) -> ToolOk:
        seen.append(Artifact.objects.count())
        return ToolOk({})

    offer(monkeypatch, stand_in("count", count, parallel_safe=True))
    model.calls(("count", {}), ("count", {}), ("create_artifact", NOTE), ("count", {}))
    model.says("Counted.")
    run_turn(run_id=make_run(room, agent, member).pk)
    assert sorted(seen) == [0, 0, 1]


def test_a_call_that_waits_holds_back_what_comes_after_it(
    room: Room, agent: Agent, member: User, model: FakeModel, tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    letters = Letters(tmp_path / "letters")
    offer(monkeypatch, outside_tool(letters.handler))
    model.calls(("send_letter", {"to": "anna"}), ("create_artifact", NOTE))
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert run.state == "parked"
    assert outcomes() == [("send_letter", ""), ("create_artifact", "")]
    assert not Artifact.objects.exists()
    assert ApprovalRequest.objects.count() == 1


def test_slow_reads_that_are_safe_beside_each_other_go_to_workers_together(
    room: Room, agent: Agent, member: User, model: FakeModel, tmp_path: Any, settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    settings.AGENT_LOOP_MAX_PARALLEL_TOOLS = 2
    letters = Letters(tmp_path / "letters")
    slow = outside_tool(letters.handler, name="slow", effect=Effect.READ, parallel_safe=True)
    offer(monkeypatch, slow)
    model.calls(*[("slow", {"to": f"p{number}"}) for number in range(3)])
    model.says("All read.")
    run = make_run(room, agent, member)
    for together in (2, 1):
        run_turn(run_id=run.pk)
        ready = list(ready_calls(10))
        assert len(ready) == together
        for ident in ready:
            execute_waiting(call_id=ident, executor="worker")
    run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert run.outcome == "completed"
    assert outcomes() == [("slow", "ok")] * 3


@pytest.mark.parametrize("odd", ["refused", "invalid"])
def test_one_that_may_not_run_is_settled_and_the_others_run(
    room: Room, agent: Agent, member: User, model: FakeModel, settings: Any,
    monkeypatch: pytest.MonkeyPatch, odd: str,
) -> None:  # fmt: skip
    settings.AGENT_LOOP_MAX_PARALLEL_TOOLS = 4
    meeting = Meeting(2)
    offer(monkeypatch, stand_in("meet", meeting.meet, parallel_safe=True))
    broken = ("no_such_tool", {}) if odd == "refused" else ("meet", "[")
    model.calls(broken, ("meet", {"place": 1}), ("meet", {"place": 2}))
    model.says("Two came.")
    run = make_run(room, agent, member)
    run_turn(run_id=run.pk)
    assert [outcome for _, outcome in outcomes()] == ["refused", "ok", "ok"]


def test_a_read_that_raises_beside_others_is_only_its_own_failure(
    room: Room, agent: Agent, member: User, model: FakeModel, settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    settings.AGENT_LOOP_MAX_PARALLEL_TOOLS = 4

    def odd(arguments: Any, context: Any) -> ToolOk:
        if arguments["place"] == 1:
            raise ValueError("at one")
        return ToolOk({"seen": Run.objects.count()})

    offer(monkeypatch, stand_in("odd", odd, parallel_safe=True))
    model.calls(*[("odd", {"place": place}) for place in range(3)])
    model.says("One failed.")
    run_turn(run_id=make_run(room, agent, member).pk)
    assert [outcome for _, outcome in outcomes()] == ["ok", "raised", "ok"]


def test_what_spawns_runs_pauses_or_uses_a_connection_is_never_run_beside_others() -> None:
    from apps.tools.registry import BUILTIN_TOOLS
    from apps.turns.calls import _is_safe_beside

    safe = {name for name, tool in BUILTIN_TOOLS.items() if _is_safe_beside(tool.spec)}
    assert "invoke_agent" not in safe
    assert "list_available_agents" in safe
    assert all(BUILTIN_TOOLS[name].spec.effect is Effect.READ for name in safe)
