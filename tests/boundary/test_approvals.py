"""A call that asks: nothing happens before the yes, and the yes is used once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.errors import AlreadyDecided, NotWhatWasShown, RequestNotFound
from apps.approvals.models import ApprovalRequest, Receipt
from apps.audit.models import AuditRow
from apps.boundary import pipeline
from apps.boundary.crossing import Waiting
from apps.boundary.selectors import overdue_requests, ready_calls
from apps.boundary.services import decide_approval, expire_request, stop_run
from apps.domain.tooling import Effect, Reason, ToolFailure, ToolOk
from apps.rooms.models import Room, RoomEvent
from apps.runs.bodies import projection_of
from apps.runs.claims import fenced
from apps.runs.errors import RunOver
from apps.runs.models import Call, Run
from apps.runs.services import park_run
from apps.tools.contract import CallContext
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room, proposed

pytestmark = pytest.mark.django_db(transaction=True)

PAST = "2020-01-01T00:00Z"


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Letters:
    letters = Letters(tmp_path / "letters")
    offer(monkeypatch, outside_tool(letters.handler))
    return letters


@pytest.fixture
def member(transactional_db: Any) -> User:
    return make_member("mara")


@pytest.fixture
def guest(member: User) -> User:
    return make_member("tomas")


@pytest.fixture
def run(member: User, guest: User, letters: Letters) -> Run:
    agent = make_agent(member, slug="scribe")
    return claimed_run(make_room(member, agent, guest), agent, member)


@pytest.fixture
def asked(run: Run) -> ApprovalRequest:
    """A parked run whose call waits for its member."""
    waiting = crossed(run, "send_letter", {"to": "anna"})
    assert isinstance(waiting, Waiting)
    with fenced(run_id=run.pk, fence=run.fence) as locked:
        park_run(run=locked)
    return ApprovalRequest.objects.get()


def say_yes(asked: ApprovalRequest, member: User) -> None:
    decide_approval(
        approval_id=asked.pk, member=member, approve=True, arguments_digest=asked.arguments_digest
    )


def execute(asked: ApprovalRequest) -> Call:
    pipeline.execute_waiting(call_id=asked.call_id, executor="worker")
    return Call.objects.get(pk=asked.call_id)


def test_a_question_is_stored_before_anything_waits_and_nothing_runs(
    asked: ApprovalRequest, letters: Letters
) -> None:
    call = execute(asked)
    assert (call.state, letters.sent) == ("waiting", [])
    assert list(ready_calls(10)) == []
    event = RoomEvent.objects.get(kind="approval.requested")
    assert "anna" not in str(event.data)


def test_without_the_question_that_was_answered_nothing_runs(
    asked: ApprovalRequest, member: User, letters: Letters
) -> None:
    say_yes(asked, member)
    Receipt.objects.all().delete()
    ApprovalRequest.objects.all().delete()
    execute(asked)
    assert letters.sent == []


def test_where_questions_cannot_be_stored_nothing_that_asks_runs_and_the_rest_does(
    run: Run, letters: Letters
) -> None:
    table = ApprovalRequest._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO away")
        try:
            with pytest.raises(DatabaseError):
                crossed(run, "send_letter", {"to": "anna"})
            settled = crossed(run, "list_available_agents", {}, step=2)
        finally:
            cursor.execute(f"ALTER TABLE away RENAME TO {table}")
    assert letters.sent == []
    assert settled.call.outcome == "ok"


def test_an_approved_call_runs_once_and_wakes_its_run(
    asked: ApprovalRequest, member: User, run: Run, letters: Letters
) -> None:
    say_yes(asked, member)
    assert list(ready_calls(10)) == [asked.call_id]
    call = execute(asked)
    assert (call.state, call.outcome) == ("settled", "ok")
    assert len(letters.sent) == 1
    run.refresh_from_db()
    assert run.state == "queued"
    for action in ("approval.requested", "approval.approved", "receipt.spent", "chat.tool.write"):
        assert AuditRow.objects.filter(action=action).count() == 1


def test_a_receipt_is_spent_once_whoever_else_tries(
    asked: ApprovalRequest, member: User, letters: Letters
) -> None:
    say_yes(asked, member)
    barrier = threading.Barrier(6)

    def attempt(name: str) -> None:
        barrier.wait()
        pipeline.execute_waiting(call_id=asked.call_id, executor=name)
        connection.close()

    _together(*(lambda n=n: attempt(f"worker-{n}") for n in range(6)))
    assert len(letters.sent) == 1
    execute(asked)
    assert len(letters.sent) == 1
    assert AuditRow.objects.filter(action="receipt.spent").count() == 1


def test_an_approval_is_given_once_whoever_else_clicks(
    asked: ApprovalRequest, member: User
) -> None:
    refused: list[type[Exception]] = []

    def click() -> None:
        try:
            say_yes(asked, member)
        except AlreadyDecided as refusal:
            refused.append(type(refusal))
        connection.close()

    _together(*[click] * 5)
    assert len(refused) == 4
    assert Receipt.objects.count() == 1


def test_a_yes_to_other_arguments_is_no_yes(asked: ApprovalRequest, member: User) -> None:
    with pytest.raises(NotWhatWasShown):
        decide_approval(
            approval_id=asked.pk, member=member, approve=True, arguments_digest="sha256:other"
        )
    assert ApprovalRequest.objects.get().state == "pending"


def test_only_the_member_for_whom_the_run_works_can_see_or_decide(
    asked: ApprovalRequest, guest: User
) -> None:
    with pytest.raises(RequestNotFound):
        say_yes(asked, guest)


def test_a_no_settles_the_call_and_is_told_to_the_model(
    asked: ApprovalRequest, member: User, run: Run, letters: Letters
) -> None:
    decide_approval(approval_id=asked.pk, member=member, approve=False, comment="not today")
    call = execute(asked)
    assert (call.outcome, call.reason, letters.sent) == ("denied", "approval_denied", [])
    assert call.rule == "somebody_said_yes"
    assert "not today" in projection_of(call)["message"]
    run.refresh_from_db()
    assert run.state == "queued"


def test_arguments_changed_behind_the_approval_are_never_executed(
    asked: ApprovalRequest, member: User, letters: Letters
) -> None:
    say_yes(asked, member)
    Call.objects.filter(pk=asked.call_id).update(
        arguments={"to": "eve"}, arguments_digest="sha256:" + "0" * 64
    )
    call = execute(asked)
    assert (call.outcome, letters.sent) == ("denied", [])


def test_arguments_changed_under_their_old_digest_are_never_executed(
    asked: ApprovalRequest, member: User, letters: Letters
) -> None:
    say_yes(asked, member)
    Call.objects.filter(pk=asked.call_id).update(arguments={"to": "eve"})
    call = execute(asked)
    assert (call.outcome, letters.sent) == ("denied", [])


def test_a_tool_that_changed_behind_the_approval_is_never_executed(
    asked: ApprovalRequest, member: User, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    say_yes(asked, member)
    offer(monkeypatch, outside_tool(letters.handler, version="2"))
    call = execute(asked)
    assert (call.outcome, call.reason, letters.sent) == ("refused", "outside_catalog", [])


def test_a_ceiling_narrowed_behind_the_approval_holds(
    asked: ApprovalRequest, member: User, letters: Letters
) -> None:
    say_yes(asked, member)
    Agent.objects.update(ceiling=["artifacts.read"])
    assert (execute(asked).outcome, letters.sent) == ("refused", [])


def test_an_expired_receipt_is_refused(
    asked: ApprovalRequest, member: User, letters: Letters
) -> None:
    say_yes(asked, member)
    Receipt.objects.update(expires_at=PAST)
    call = execute(asked)
    assert (call.outcome, call.reason, letters.sent) == ("refused", "receipt_spent", [])


def test_a_receipt_of_another_member_is_refused(
    asked: ApprovalRequest, member: User, guest: User, letters: Letters
) -> None:
    say_yes(asked, member)
    Receipt.objects.update(actor=guest)
    assert (execute(asked).outcome, letters.sent) == ("refused", [])


def test_a_question_that_ran_out_of_time_is_closed_and_the_run_goes_on(
    asked: ApprovalRequest, run: Run, letters: Letters, member: User
) -> None:
    ApprovalRequest.objects.update(expires_at=PAST)
    with pytest.raises(AlreadyDecided):
        say_yes(asked, member)
    assert list(overdue_requests(10)) == [asked.pk]
    expire_request(approval_id=asked.pk)
    expire_request(approval_id=asked.pk)
    call = Call.objects.get()
    assert (call.outcome, call.reason) == ("denied", "approval_expired")
    assert call.rule == "somebody_said_yes"
    run.refresh_from_db()
    assert run.state == "queued"


def test_stopping_a_parked_run_withdraws_its_questions(
    asked: ApprovalRequest, run: Run, member: User, letters: Letters
) -> None:
    stop_run(run_id=run.pk, member=member)
    run.refresh_from_db()
    assert (run.state, run.outcome) == ("finished", "stopped")
    assert ApprovalRequest.objects.get().state == "withdrawn"
    with pytest.raises(RunOver):
        say_yes(asked, member)
    stopped = execute(asked)
    assert (stopped.outcome, stopped.rule, letters.sent) == ("stopped", "run_is_live", [])


def test_a_write_whose_executor_fell_silent_is_ambiguous_and_never_tried_again(
    asked: ApprovalRequest, member: User, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    class Died(BaseException):
        pass

    def die(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        tries.append(arguments["to"])
        raise Died

    offer(monkeypatch, outside_tool(die))
    say_yes(asked, member)
    with pytest.raises(Died):
        execute(asked)
    assert execute(asked).state == "dispatched"  # its hold has not expired yet
    Call.objects.update(executor_expires_at=PAST)
    assert list(ready_calls(10)) == [asked.call_id]
    call = execute(asked)
    assert (call.outcome, call.reason) == ("ambiguous", Reason.OUTCOME_UNKNOWN.value)
    assert tries == ["anna"]
    run.refresh_from_db()
    assert run.state == "queued"


def test_a_late_result_of_an_executor_that_was_given_up_is_fenced_off(
    asked: ApprovalRequest, member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        Call.objects.update(executor_expires_at=PAST)
        pipeline.execute_waiting(call_id=context.call_id, executor="sweeper")
        return ToolOk({"sent": True})

    offer(monkeypatch, outside_tool(slow))
    say_yes(asked, member)
    assert execute(asked).outcome == "ambiguous"


def test_a_read_outside_runs_without_a_question_and_is_abandoned_when_silent(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        return ToolOk({"seen": arguments["to"]})

    offer(monkeypatch, outside_tool(look, name="look_up", effect=Effect.READ))
    from apps.tools.catalog import freeze

    freeze(run)
    run.save()
    waiting = crossed(run, "look_up", {"to": "anna"})
    assert isinstance(waiting, Waiting)
    pipeline.execute_waiting(call_id=waiting.call.pk, executor="worker")
    assert Call.objects.get(pk=waiting.call.pk).outcome == "ok"

    second = crossed(run, "look_up", {"to": "bea"}, step=2)
    Call.objects.filter(pk=second.call.pk).update(
        state="dispatched", executor="dead", executor_expires_at=PAST
    )
    pipeline.execute_waiting(call_id=second.call.pk, executor="worker")
    assert Call.objects.get(pk=second.call.pk).outcome == "abandoned"


def test_a_failure_that_the_tool_foresaw_is_an_error_and_the_run_goes_on(
    asked: ApprovalRequest, member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_stamp(arguments: dict[str, Any], context: CallContext) -> ToolFailure:
        return ToolFailure(Reason.DEPENDENCY_UNAVAILABLE, "No stamps. token=abcdef123456")

    offer(monkeypatch, outside_tool(no_stamp))
    say_yes(asked, member)
    call = execute(asked)
    assert (call.outcome, call.reason) == ("error", "dependency_unavailable")


def test_a_write_outside_that_raises_has_an_unknown_end(
    asked: ApprovalRequest, member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def burst(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        raise RuntimeError("host db.internal:5432 refused")

    offer(monkeypatch, outside_tool(burst))
    say_yes(asked, member)
    call = execute(asked)
    assert call.outcome == "ambiguous"
    assert "db.internal" not in str(projection_of(call))


def _together(*works: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_room_that_closed_behind_the_approval_holds(
    asked: ApprovalRequest, member: User, letters: Letters
) -> None:
    say_yes(asked, member)
    Room.objects.update(closed_at=PAST)
    assert (execute(asked).reason, letters.sent) == ("room_closed", [])


def test_a_call_that_breaks_before_its_tool_is_settled_in_bounded_time(
    asked: ApprovalRequest, member: User, letters: Letters, monkeypatch: Any
) -> None:
    def break_off(*_: Any) -> Any:
        raise LookupError("SECRET")

    say_yes(asked, member)
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "resolve_tool", break_off)
        for _ in range(pipeline.MAX_ATTEMPTS):
            assert list(ready_calls(10)) == [asked.call_id]
            with pytest.raises(LookupError):
                execute(asked)
        call = execute(asked)
    assert (call.outcome, call.reason) == ("error", "execution_error")
    assert "SECRET" not in str(projection_of(call))
    assert letters.sent == []
    assert list(ready_calls(10)) == []
    call.run.refresh_from_db()
    assert call.run.state == "queued"


def test_bells_for_a_call_that_still_asks_are_no_attempts(
    asked: ApprovalRequest, member: User, letters: Letters
) -> None:
    for _ in range(2 * pipeline.MAX_ATTEMPTS):
        assert execute(asked).state == "waiting"
    say_yes(asked, member)
    assert execute(asked).outcome == "ok"
    assert len(letters.sent) == 1


def test_a_call_handed_over_under_laxer_rules_is_asked_about(run: Run, member: User) -> None:
    waiting = proposed(run, "send_letter", {"to": "anna"})
    Call.objects.filter(pk=waiting.pk).update(state="waiting")
    pipeline.execute_waiting(call_id=waiting.pk, executor="worker")
    assert ApprovalRequest.objects.get().call_id == waiting.pk
    assert list(ready_calls(10)) == []
