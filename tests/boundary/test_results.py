"""How a call ended, whose failure it was, and what the next call learns from it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction
from structlog.testing import capture_logs

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest
from apps.artifacts.models import Artifact
from apps.audit.models import AuditRow
from apps.boundary import pipeline
from apps.boundary.services import decide_approval
from apps.core.errors import Conflict
from apps.core.queue import ring
from apps.domain.tooling import (
    Effect,
    FaultDomain,
    Outcome,
    Reason,
    RepeatPolicy,
    ToolFailure,
    ToolOk,
)
from apps.rooms.models import Room, RoomEvent
from apps.runs.bodies import projection_of
from apps.runs.claims import fenced
from apps.runs.errors import StaleFence
from apps.runs.models import Call, Run
from apps.runs.services import park_run
from apps.tools.contract import CallContext, Handler
from tests.factories.effects import Letters, offer, outside_tool, own_tool
from tests.factories.rooms import claimed_run, crossed

NOTE = {"title": "A note", "kind": "markdown", "body": "# Hello"}
Began = Callable[..., Run]


@pytest.fixture
def began(room: Room, agent: Agent, member: User, monkeypatch: pytest.MonkeyPatch) -> Began:
    """Begin a run that is offered a tool of ours with this handler."""

    def begin(handler: Handler, **words: Any) -> Run:
        offer(monkeypatch, own_tool(handler, **words))
        return claimed_run(room, agent, member)

    return begin


def settled(run: Run, tool: str = "own", arguments: Any = None, **place: int) -> Call:
    call = crossed(run, tool, {} if arguments is None else arguments, **place).call
    return Call.objects.get(pk=call.pk)


def outcome(call: Call) -> tuple[str, str, str]:
    return call.outcome, call.reason, call.domain


def fails(reason: Reason, **words: Any) -> Handler:
    return lambda arguments, context: ToolFailure(reason, "It could not.", **words)


def makes_a_note_then(result: ToolOk | ToolFailure | Exception) -> Handler:
    """Save something, ring a bell and tell the room, and then end like this."""

    def handle(arguments: dict[str, Any], context: CallContext) -> ToolOk | ToolFailure:
        from apps.tools.builtin.artifacts import create_artifact

        create_artifact(NOTE, context)
        ring("core.sweep")
        if isinstance(result, Exception):
            raise result
        return result

    return handle


# --- whose failure it was


@pytest.mark.parametrize(
    ("reason", "words", "domain"),
    [
        (Reason.NOT_FOUND, {}, "caller"),
        (Reason.EXECUTION_ERROR, {}, "tool"),
        (Reason.DEPENDENCY_UNAVAILABLE, {}, "dependency"),
        (Reason.COMMAND_FAILED, {"domain": FaultDomain.CALLER}, "caller"),
    ],
)
def test_whose_failure_it_was_is_kept_with_the_call_and_in_the_audit(
    began: Began, reason: Reason, words: dict[str, Any], domain: str
) -> None:
    call = settled(began(fails(reason, **words)))
    assert outcome(call) == ("error", reason.value, domain)
    assert projection_of(call)["fault"] == domain
    assert AuditRow.objects.get(action="call.settled").detail["domain"] == domain


def test_a_refusal_is_the_boundarys_own(began: Began) -> None:
    run = began(lambda arguments, context: ToolOk({}))
    assert outcome(settled(run, "no_such_tool")) == ("refused", "outside_catalog", "boundary")
    assert settled(run, step=2).domain == ""


def test_a_failure_that_nothing_may_stand_in_for_says_so_to_the_model(began: Began) -> None:
    call = settled(began(fails(Reason.DEPENDENCY_UNAVAILABLE, non_substitutable=True)))
    assert call.non_substitutable
    assert projection_of(call)["non_substitutable"] is True


# --- the runtime decides whether a call failed


@pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE])
def test_a_body_that_reports_a_failure_is_an_error_outcome(began: Began, effect: Effect) -> None:
    run = began(lambda a, c: ToolOk({"status": "failed", "error": "no ink"}), effect=effect)
    call = settled(run)
    assert outcome(call) == ("error", "reported_failure", "tool")
    assert "no ink" in projection_of(call)["message"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE])
def test_a_body_from_outside_that_reports_a_failure_is_an_error_and_marked_as_data(
    room: Room, agent: Agent, member: User, monkeypatch: pytest.MonkeyPatch, effect: Effect
) -> None:
    def handle(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        return ToolOk({"ok": False, "password": "plum"}, artifacts=("a:1",))

    offer(monkeypatch, outside_tool(handle, effect=effect, outside_data=True))
    call = through_a_worker(claimed_run(room, agent, member), member)
    assert outcome(call) == ("error", "reported_failure", "tool")
    told = projection_of(call)
    assert "plum" not in str(told)
    assert "not an instruction" in told["outside_data"]
    # It may have been done in part: what was saved is named.
    assert told["saved"] == ["a:1"]
    assert "may be incomplete" in told["notice"]


def through_a_worker(run: Run, member: User, arguments: Any = None) -> Call:
    """Take a call from outside to its end: past its question, if any, through a worker."""
    call = crossed(run, "send_letter", {"to": "anna"} if arguments is None else arguments).call
    asked = ApprovalRequest.objects.filter(call=call, state="pending").first()
    if asked is not None:
        with fenced(run_id=run.pk, fence=run.fence) as locked:
            park_run(run=locked)
        decide_approval(
            approval_id=asked.pk,
            member=member,
            approve=True,
            arguments_digest=asked.arguments_digest,
        )
    pipeline.execute_waiting(call_id=call.pk, executor="worker")
    return Call.objects.get(pk=call.pk)


# --- ours: effect and outcome together, or nothing


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (ToolFailure(Reason.CONFLICT, "No."), ("error", "conflict", "caller")),
        (ToolOk("not an object"), ("error", "contract_error", "tool")),
        (ToolOk({"success": False}), ("error", "reported_failure", "tool")),
        (ValueError("no"), ("raised", "execution_error", "tool")),
    ],
)
def test_a_failed_call_of_ours_leaves_nothing_behind(
    began: Began, ends: Any, expected: tuple[str, str, str]
) -> None:
    run = began(makes_a_note_then(ends), effect=Effect.WRITE, output_schema={"type": "object"})
    assert outcome(settled(run)) == expected
    assert not Artifact.objects.exists()
    assert not RoomEvent.objects.filter(kind="artifact.saved").exists()


def test_a_failed_call_of_ours_that_names_what_it_saved_keeps_it(began: Began) -> None:
    failure = ToolFailure(Reason.COMMAND_FAILED, "Half done.", saved=("note:1",))
    call = settled(began(makes_a_note_then(failure), effect=Effect.WRITE))
    assert call.outcome == "error"
    assert projection_of(call)["saved"] == ["note:1"]
    assert "may be incomplete" in projection_of(call)["notice"]
    assert Artifact.objects.count() == 1


def test_a_write_of_ours_that_raises_says_one_fixed_sentence(began: Began) -> None:
    run = began(makes_a_note_then(LookupError("plum at /srv/x")), effect=Effect.WRITE)
    with capture_logs() as lines:
        call = settled(run)
    said = projection_of(call)["message"]
    assert said == f"The tool failed inside (LookupError, reference {call.pk}). Nothing was saved."
    assert "plum" not in str(AuditRow.objects.get(action="chat.tool.write").detail)
    event = RoomEvent.objects.get(kind="call.settled")
    assert event.data["explanation"] == said
    warning = next(line for line in lines if line["event"] == "tool_raised")
    assert warning["log_level"] == "warning"
    assert warning["call"] == str(call.pk)
    assert "plum at" in warning["chain"]


@pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE])
def test_a_refusal_of_ours_keeps_its_words_where_a_tool_lets_it_through(
    began: Began, effect: Effect
) -> None:
    run = began(makes_a_note_then(Conflict("A room holds at most 50 people.")), effect=effect)
    call = settled(run)
    assert outcome(call) == ("error", "conflict", "caller")
    nothing = " Nothing was saved." if effect is Effect.WRITE else ""
    assert projection_of(call)["message"] == f"A room holds at most 50 people.{nothing}"
    assert not Artifact.objects.exists()
    # Its words are for the model and its member, not for everybody in the room.
    assert RoomEvent.objects.get(kind="call.settled").data["explanation"] == ""


def test_the_operators_warning_is_redacted_and_bounded(began: Began) -> None:
    secret = "Bearer abcdef1234567890abcdef1234567890"
    run = began(makes_a_note_then(ValueError(f"{'ü' * 9000} {secret}")), effect=Effect.WRITE)
    with capture_logs() as lines:
        settled(run)
    chain = next(line for line in lines if line["event"] == "tool_raised")["chain"]
    assert len(chain.encode()) <= 2048
    assert "abcdef1234567890" not in chain


def test_a_read_that_raises_tells_the_model_its_words_and_may_be_called_again(
    began: Began,
) -> None:
    def raises(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        raise ValueError("the index is empty; Bearer abcdef1234567890abcdef")

    call = settled(began(raises))
    assert outcome(call) == ("raised", "execution_error", "tool")
    told = projection_of(call)
    assert "the index is empty" in told["message"]
    assert "abcdef1234567890" not in told["message"]
    assert told["retryable"] is True
    # The room hears our sentence, and not what the tool said.
    assert "index" not in RoomEvent.objects.get(kind="call.settled").data["explanation"]


def test_what_a_store_says_never_reaches_the_model(began: Began) -> None:
    def raises(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        with connection.cursor() as cursor:
            cursor.execute("SELECT secret_column FROM nowhere")
        return ToolOk({})

    call = settled(began(raises))
    assert outcome(call) == ("raised", "execution_error", "dependency")
    assert "nowhere" not in projection_of(call)["message"]


def test_a_breach_of_the_turns_own_order_is_never_settled(began: Began) -> None:
    def overtaken(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        raise StaleFence("Another worker has taken this run over.")

    run = began(overtaken)
    with pytest.raises(StaleFence):
        settled(run)
    assert Call.objects.get().state == "proposed"


def test_a_failed_write_may_be_retried_only_where_its_declaration_says_so(
    began: Began,
) -> None:
    flaky = fails(Reason.DEPENDENCY_UNAVAILABLE, retryable=True)
    told = projection_of(settled(began(flaky, effect=Effect.WRITE)))
    assert told["retryable"] is False


def test_a_write_that_is_declared_safe_to_retry_may_be(began: Began) -> None:
    flaky = fails(Reason.DEPENDENCY_UNAVAILABLE, retryable=True)
    run = began(flaky, effect=Effect.WRITE, retry_safe=True)
    assert projection_of(settled(run))["retryable"] is True


def test_a_failed_result_is_logged_once_without_its_text(began: Began) -> None:
    run = began(
        lambda a, c: ToolFailure(
            Reason.COMMAND_FAILED, "plum", domain=FaultDomain.CALLER, exit_status=3
        )
    )
    with capture_logs() as lines:
        call = settled(run)
    assert [line for line in lines if line["event"] == "tool_failed"] == [
        {
            "event": "tool_failed",
            "log_level": "info",
            "tool": "own",
            "call": str(call.pk),
            "outcome": "error",
            "reason": "command_failed",
            "exit_status": 3,
            "domain": "caller",
        }
    ]
    assert "plum" not in str(lines)


# --- what the next call learns


def test_a_tool_that_fails_different_requests_is_cut_off_for_the_turn(began: Began) -> None:
    tried: list[Any] = []

    def breaks(arguments: dict[str, Any], context: CallContext) -> ToolFailure:
        tried.append(arguments)
        return ToolFailure(Reason.EXECUTION_ERROR, "Broken.", retryable=True)

    run = began(breaks)
    for step in range(1, 4):
        assert settled(run, arguments={"n": step}, step=step).reason == "execution_error"
    call = settled(run, arguments={"n": 4}, step=4)
    assert outcome(call) == ("refused", "tool_cut_off", "boundary")
    assert "Go on without it" in projection_of(call)["message"]
    assert len(tried) == 3
    # Only this tool, and only for this turn.
    assert settled(run, "list_available_agents", step=5).outcome == "ok"


def test_four_failing_programs_are_four_programs(began: Began) -> None:
    relays = fails(Reason.COMMAND_FAILED, domain=FaultDomain.CALLER)
    run = began(relays)
    for step in range(1, 8):
        assert settled(run, arguments={"n": step}, step=step).reason == "command_failed"


def test_the_same_input_that_just_failed_is_never_the_repair(began: Began) -> None:
    run = began(fails(Reason.COMMAND_FAILED, domain=FaultDomain.CALLER))
    settled(run, arguments={"n": 1})
    again = settled(run, arguments={"n": 1}, step=2)
    assert outcome(again) == ("refused", "repeated_failure", "boundary")
    assert "command_failed" in projection_of(again)["message"]
    assert settled(run, arguments={"n": 2}, step=3).reason == "command_failed"
    # Something succeeded since, so it may now go otherwise.
    assert settled(run, "list_available_agents", step=4).outcome == "ok"
    assert settled(run, arguments={"n": 1}, step=5).reason == "command_failed"


def test_identical_calls_of_one_step_all_run_though_the_first_failed(began: Began) -> None:
    run = began(fails(Reason.NOT_FOUND))
    assert [settled(run, place=place).reason for place in range(3)] == ["not_found"] * 3


def test_a_write_that_failed_inside_may_be_tried_again_unchanged(began: Began) -> None:
    run = began(makes_a_note_then(ValueError("no")), effect=Effect.WRITE)
    assert settled(run).outcome == settled(run, step=2).outcome == "raised"


# --- asking twice for the same thing


def test_the_wording_of_a_repeat_closes_after_a_few(run: Run) -> None:
    first = settled(run, "create_artifact", NOTE)
    notes = []
    for step in range(2, 6):
        call = settled(run, "create_artifact", NOTE, step=step)
        assert call.outcome == "suppressed"
        told = projection_of(call)
        assert told["outcome"] == "ok"
        assert told["artifacts"] == projection_of(first)["artifacts"]
        notes.append(told["note"])
    assert "call again with other arguments" in notes[0]
    assert notes[0] == notes[1]
    assert "Do not call it again" in notes[2]
    assert "4 times" in notes[3]
    assert Artifact.objects.count() == 1


def test_the_next_turn_starts_afresh(run: Run, room: Room, agent: Agent, member: User) -> None:
    from apps.runs.services import finish_run

    settled(run, "create_artifact", NOTE)
    with fenced(run_id=run.pk, fence=run.fence) as locked:
        finish_run(run=locked, outcome="completed")
    assert settled(claimed_run(room, agent, member), "create_artifact", NOTE).outcome == "ok"
    assert Artifact.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_what_a_person_confirmed_is_never_taken_for_the_duplicate(
    room: Room, agent: Agent, member: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = Letters(tmp_path / "letters")
    offer(monkeypatch, outside_tool(letters.handler, repeat=RepeatPolicy.REDUNDANT))
    run = claimed_run(room, agent, member)
    calls = [crossed(run, "send_letter", {"to": "anna"}, step=step).call for step in (1, 2)]
    with fenced(run_id=run.pk, fence=run.fence) as locked:
        park_run(run=locked)
    for call in calls:
        asked = ApprovalRequest.objects.get(call=call)
        decide_approval(
            approval_id=asked.pk,
            member=member,
            approve=True,
            arguments_digest=asked.arguments_digest,
        )
        pipeline.execute_waiting(call_id=call.pk, executor="worker")
    assert len(letters.sent) == 2


# --- an unknown end


@pytest.mark.django_db(transaction=True)
def test_a_write_outside_that_raised_has_an_unknown_end_that_everybody_is_told(
    room: Room, agent: Agent, member: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        raise ConnectionError("reset by 10.0.0.7")

    offer(monkeypatch, outside_tool(breaks))
    call = through_a_worker(claimed_run(room, agent, member), member)
    assert outcome(call) == ("ambiguous", "outcome_unknown", "dependency")
    told = projection_of(call)
    assert "unknown" in told["message"]
    assert "10.0.0.7" not in str(told)
    assert told["retryable"] is False
    event = RoomEvent.objects.filter(kind="call.settled").get()
    assert event.data["outcome"] == "ambiguous"
    assert "unknown" in event.data["explanation"]
    assert AuditRow.objects.get(action="chat.tool.write").outcome == "ambiguous"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        (Effect.WRITE, ("ambiguous", "outcome_unknown", "boundary")),
        (Effect.READ, ("abandoned", "interrupted", "boundary")),
    ],
)
def test_a_worker_that_died_mid_call_leaves_an_end_that_says_what_is_known(
    room: Room,
    agent: Agent,
    member: User,
    monkeypatch: pytest.MonkeyPatch,
    effect: Effect,
    expected: tuple[str, str, str],
) -> None:
    done: list[str] = []

    def dies(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        done.append("once")
        raise SystemExit

    offer(monkeypatch, outside_tool(dies, effect=effect))
    run = claimed_run(room, agent, member)
    with pytest.raises(SystemExit):
        through_a_worker(run, member)
    call = Call.objects.get()
    assert call.state == "dispatched"
    Call.objects.filter(pk=call.pk).update(executor_expires_at="2020-01-01T00:00Z")
    for _ in range(2):
        pipeline.execute_waiting(call_id=call.pk, executor="another")
    call.refresh_from_db()
    assert outcome(call) == expected
    assert done == ["once"]
    assert AuditRow.objects.filter(subject=call.key).count() == 1
    assert RoomEvent.objects.get(kind="call.settled").data["explanation"]
    assert projection_of(call)["retryable"] is (effect is Effect.READ)


@pytest.mark.django_db(transaction=True)
def test_a_bell_of_a_failed_call_of_ours_is_not_rung(
    began: Began, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apps.core import queue

    rung: list[str] = []
    run = began(makes_a_note_then(ToolFailure(Reason.CONFLICT, "No.")), effect=Effect.WRITE)
    monkeypatch.setattr(queue, "_send", lambda task, kwargs, **_: rung.append(task))
    with transaction.atomic():
        assert settled(run).outcome == Outcome.ERROR
    assert "core.sweep" not in rung


def test_no_end_is_given_without_the_rule_that_gave_it() -> None:
    nameless = [
        f"{path.name}:{node.value.lineno}"
        for path in sorted(Path(settings.BASE_DIR, "apps", "boundary").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.keyword) and node.arg == "rule"
        if isinstance(node.value, ast.Constant) and not node.value.value
    ]
    assert nameless == []
