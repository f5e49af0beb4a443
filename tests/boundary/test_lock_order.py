"""Run, call, receipt, artifact, blob, room: the room is locked last, whatever happens."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest
from apps.artifacts.models import Artifact
from apps.boundary import external, pipeline
from apps.boundary.edits import edit_approval
from apps.boundary.external import call_tool, finish_external_run, open_external_run
from apps.boundary.services import decide_approval, stop_run
from apps.rooms.models import Room
from apps.runs.claims import fenced, lock_call
from apps.runs.models import Call, Run
from apps.turns.engine import run_turn
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import (
    claimed_run,
    crossed,
    make_agent,
    make_member,
    make_room,
    make_run,
    proposed,
)
from tests.turns.fake_model import FakeModel, fake_model

pytestmark = pytest.mark.django_db(transaction=True)

LONG = "word " * 4_000
NOTE = {"title": "A note", "kind": "markdown", "body": LONG}

_LOCKS_ROOM = re.compile(r'UPDATE "?rooms_room"?|FROM "rooms_room".*FOR NO KEY UPDATE', re.S)
# What may wait for somebody: a lock, a change of a row, a blob that another may be touching.
_MAY_WAIT = re.compile(r"FOR (NO KEY )?UPDATE|^UPDATE|^DELETE|core_blob", re.S)


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Letters:
    letters = Letters(tmp_path / "letters")
    offer(monkeypatch, outside_tool(letters.handler))
    return letters


@pytest.fixture
def member(transactional_db: Any) -> User:
    return make_member("mara")


@pytest.fixture
def agent(member: User) -> Agent:
    return make_agent(member, slug="scribe")


@pytest.fixture
def room(member: User, agent: Agent, letters: Letters) -> Room:
    return make_room(member, agent)


@pytest.fixture
def outside(room: Room, member: User) -> Run:
    return open_external_run(room_id=room.pk, member=member, agent_slug="scribe").run


@contextmanager
def room_comes_last() -> Iterator[None]:
    with CaptureQueriesContext(connection) as captured:
        yield
    locked: str | None = None
    for query in captured.captured_queries:
        # A savepoint that is held back, to travel with what it undoes, has no text of its own.
        sql = query["sql"] or ""
        if sql in ("BEGIN", "COMMIT", "ROLLBACK"):
            locked = None
        elif _LOCKS_ROOM.search(sql):
            locked = sql
        elif locked is not None and _MAY_WAIT.search(sql):
            raise AssertionError(f"After the room, something may still wait: {sql[:300]}")


def call(run: Run, name: str, arguments: Any, ident: str = "1") -> Call:
    text = json.dumps(arguments)
    return call_tool(run=run, name=name, arguments_text=text, proposal_id=ident).call


def test_calls_of_another_runtime(outside: Run, member: User) -> None:
    with room_comes_last():
        call(outside, "create_artifact", NOTE)
        artifact = str(Artifact.objects.get().pk)
        change = {"artifact_id": artifact, "expected_version": 1, "body": LONG * 2}
        call(outside, "update_artifact", change, "2")
        call(outside, "read_artifact", {"artifact_id": artifact}, "3")
        call(outside, "no_such_tool", {"x": LONG}, "4")
        call(outside, "send_letter", {"to": LONG}, "5")
        finish_external_run(run=outside, text="x" * 10_000)


@pytest.mark.parametrize("approve", [True, False])
def test_decisions_and_what_follows(outside: Run, member: User, approve: bool) -> None:
    for ident in ("1", "2"):
        call(outside, "send_letter", {"to": ident}, ident)
    asked = ApprovalRequest.objects.first()
    assert asked is not None
    with room_comes_last():
        decide_approval(
            approval_id=asked.pk,
            member=member,
            approve=approve,
            arguments_digest=asked.arguments_digest,
        )
        pipeline.execute_waiting(call_id=asked.call_id, executor="worker")
        stop_run(run_id=outside.pk, member=member)


def test_edits_and_what_follows(outside: Run, member: User) -> None:
    call(outside, "send_letter", {"to": "anna"})
    asked = ApprovalRequest.objects.get()
    with room_comes_last():
        edited = edit_approval(
            approval_id=asked.pk,
            member=member,
            arguments_digest=asked.arguments_digest,
            arguments={"to": LONG},
        )
        pipeline.execute_waiting(call_id=edited.call.pk, executor="worker")


def test_turns_of_our_own(room: Room, member: User, settings: Any) -> None:
    with fake_model() as model:
        settings.KAIZEN_MODEL_URL = model.url
        script(model)
        run = make_run(room, Agent.objects.get(), member, text=LONG)
        with room_comes_last():
            run_turn(run_id=run.pk)
    run.refresh_from_db()
    assert run.outcome == "completed"


def script(model: FakeModel) -> None:
    model.calls(("create_artifact", NOTE), ("list_available_agents", {}), ("create_artifact", NOTE))
    model.script[0].insert(0, {"content": LONG[:9_000]})
    model.says("Done.")


def test_two_runs_that_change_one_artifact_do_not_block_each_other(
    room: Room, agent: Agent, member: User, outside: Run, monkeypatch: Any
) -> None:
    """One has told the room of its call, the other holds the artifact, and each goes on."""
    own = claimed_run(room, agent, member)
    crossed(own, "create_artifact", NOTE)
    change = {"artifact_id": str(Artifact.objects.get().pk), "expected_version": 1, "body": "New"}
    waiting = proposed(own, "update_artifact", change, step=2)
    told, held = threading.Event(), threading.Event()
    plain_cross, plain_record = external.cross, pipeline.record

    def cross_after_the_other_holds(**words: Any) -> Any:
        told.set()
        # No longer than this: the other may be stopped by what this one holds.
        held.wait(1)
        return plain_cross(**words)

    def record_after_the_other_told(*args: Any, **words: Any) -> Any:
        if threading.current_thread().name == "own":
            held.set()
        return plain_record(*args, **words)

    monkeypatch.setattr(external, "cross", cross_after_the_other_holds)
    monkeypatch.setattr(pipeline, "record", record_after_the_other_told)
    failed: list[BaseException] = []

    def in_thread(work: Callable[[], Any]) -> Callable[[], None]:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - the test shows it
                failed.append(error)
            finally:
                connection.close()

        return guarded

    def theirs() -> Call:
        return call(outside, "update_artifact", change)

    def ours() -> Any:
        assert told.wait(10)
        with fenced(run_id=own.pk, fence=own.fence) as locked:
            return pipeline.cross(run=locked, call=lock_call(waiting.pk))

    threads = [
        threading.Thread(target=in_thread(theirs), name="theirs"),
        threading.Thread(target=in_thread(ours), name="own"),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []
    outcomes = Call.objects.filter(tool="update_artifact").values_list("outcome", flat=True)
    assert sorted(outcomes) == ["error", "ok"]
