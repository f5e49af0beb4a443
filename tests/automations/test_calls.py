"""At every call of a run that no person started, its grant is read again."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest, Receipt, UnattendedAllowance, Waiver
from apps.automations.models import Automation
from apps.automations.services import change_automation, delete_automation, revoke_automation
from apps.boundary import pipeline
from apps.boundary.services import decide_approval
from apps.boundary.standing import read_standing
from apps.domain.policy import GrantState
from apps.rooms.models import Room
from apps.rooms.services import room_last
from apps.runs.claims import lock_run
from apps.runs.models import Call, Run
from tests.factories.automations import OWN_TABLES, make_automation, started_run
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import crossed, make_agent, make_member, make_room

pytestmark = pytest.mark.django_db

RULE = "automation_grant_holds"
NOTE = {"title": "A note", "kind": "markdown", "body": "# Hello"}


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Letters:
    letters = Letters(tmp_path / "letters")
    offer(
        monkeypatch,
        outside_tool(letters.handler),
        outside_tool(letters.handler, name="send_report", needs_approval_when_unattended=True),
    )
    return letters


@pytest.fixture
def run(automation: Automation, letters: Letters) -> Run:
    return started_run(automation)


def note(run: Run, step: int = 1) -> Call:
    return Call.objects.get(pk=crossed(run, "create_artifact", NOTE, step=step).call.pk)


def asked(run: Run, tool: str = "send_report", step: int = 1) -> Call:
    """A call that a worker has looked at."""
    stepped = crossed(run, tool, {"to": "anna"}, step=step)
    pipeline.execute_waiting(call_id=stepped.call.pk, executor="worker")
    return Call.objects.get(pk=stepped.call.pk)


def say_yes(call: Call, member: User) -> Call:
    request = ApprovalRequest.objects.get(call=call)
    decide_approval(
        approval_id=request.pk,
        member=member,
        approve=True,
        arguments_digest=request.arguments_digest,
    )
    return Call.objects.get(pk=call.pk)


def _revoke(automation: Automation, member: User) -> None:
    revoke_automation(automation_id=automation.pk, actor=member)


def _change(automation: Automation, member: User) -> None:
    change_automation(automation_id=automation.pk, member=member, changes={"words": "Sell all."})


def _pause(automation: Automation, member: User) -> None:
    change_automation(automation_id=automation.pk, member=member, changes={"enabled": False})


def _delete(automation: Automation, member: User) -> None:
    delete_automation(automation_id=automation.pk, member=member)


def _expire(automation: Automation, member: User) -> None:
    Automation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))


def _pass_deadline(automation: Automation, member: User) -> None:
    """The authority that a run began with ends, whatever its grant says now."""
    Run.objects.update(authority_until=timezone.now() - timedelta(seconds=1))


def _other_member(automation: Automation, member: User) -> None:
    """A grant of somebody else says nothing about this member's run."""
    Automation.objects.update(member=make_member())


LOSSES = [_revoke, _change, _pause, _delete, _expire, _pass_deadline, _other_member]


def test_while_its_grant_holds_a_run_works_as_its_member(run: Run) -> None:
    assert note(run).outcome == "ok"


@pytest.mark.parametrize("lose", LOSSES)
def test_a_call_is_refused_once_the_grant_is_not_what_it_was(
    run: Run, automation: Automation, member: User, lose: Any
) -> None:
    assert note(run).outcome == "ok"
    lose(automation, member)
    refused = note(run, step=2)
    assert (refused.outcome, refused.reason, refused.rule) == ("refused", "permission_denied", RULE)


def test_a_run_that_nobody_can_name_a_grant_for_is_refused(run: Run) -> None:
    Run.objects.update(automation_id=None, automation_revision=None, authority_until=None)
    assert note(run).rule == RULE


def test_a_deployment_that_switches_automations_off_refuses_the_next_call(
    run: Run, settings: Any
) -> None:
    settings.KAIZEN_FEATURES_OFF = frozenset({"automations"})
    assert note(run).rule == RULE


def test_a_run_that_a_member_started_needs_no_grant(
    automation: Automation, room: Room, agent: Agent, member: User
) -> None:
    from tests.factories.rooms import claimed_run

    own = claimed_run(room, agent, member)
    revoke_automation(automation_id=automation.pk, actor=member)
    assert note(own).outcome == "ok"


@pytest.mark.parametrize("lose", LOSSES)
def test_an_answer_given_after_the_grant_was_lost_executes_nothing(
    run: Run, automation: Automation, member: User, letters: Letters, lose: Any
) -> None:
    waiting = asked(run)
    assert waiting.state == "waiting"
    lose(automation, member)
    say_yes(waiting, member)
    pipeline.execute_waiting(call_id=waiting.pk, executor="worker")
    settled = Call.objects.get(pk=waiting.pk)
    assert (settled.outcome, settled.rule) == ("refused", RULE)
    assert letters.sent == []
    assert Receipt.objects.get(request__call=waiting).spent_at is None


def test_a_call_that_was_handed_to_a_worker_is_decided_again_there(
    run: Run, automation: Automation, member: User, letters: Letters
) -> None:
    UnattendedAllowance.objects.create(
        trigger="schedule", automation=automation, tool="send_report"
    )
    handed = crossed(run, "send_report", {"to": "anna"}).call
    assert handed.state == "waiting"
    revoke_automation(automation_id=automation.pk, actor=member)
    pipeline.execute_waiting(call_id=handed.pk, executor="worker")
    assert Call.objects.get(pk=handed.pk).rule == RULE
    assert letters.sent == []


@pytest.mark.django_db(transaction=True)
def test_whoever_revokes_waits_for_a_call_that_is_being_decided(
    run: Run, automation: Automation, member: User
) -> None:
    """When a revocation has returned, nothing that was decided before it is still to come."""
    decided, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def decide() -> None:
        with room_last():
            lock_run(run.pk)
            assert read_standing(run_id=run.pk, tool="create_artifact").grant is GrantState.HELD
            decided.set()
            assert go_on.wait(20)
            order.append("call")
        connection.close()

    def revoke() -> None:
        revoke_automation(automation_id=automation.pk, actor=member)
        order.append("revoked")
        connection.close()

    first, second = threading.Thread(target=decide), threading.Thread(target=revoke)
    first.start()
    assert decided.wait(20)
    second.start()
    _until_somebody_waits_for_a_lock()
    go_on.set()
    first.join(20)
    second.join(20)
    assert order == ["call", "revoked"]
    assert note(run).rule == RULE


def _until_somebody_waits_for_a_lock() -> None:
    until = timezone.now() + timedelta(seconds=20)
    with connection.cursor() as cursor:
        while timezone.now() < until:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            if cursor.fetchone()[0]:
                return
    raise AssertionError("Nobody waited for the call.")


def test_a_run_that_works_for_another_inherits_its_grant(
    run: Run, automation: Automation, member: User, room: Room
) -> None:
    make_agent(member, slug="helper", ceiling=OWN_TABLES)
    crossed(run, "invoke_agent", {"agent": "helper", "task": "Write it."})
    child = Run.objects.select_related("agent", "member", "room").get(parent=run)
    assert (child.trigger, child.automation_id, child.automation_revision) == (
        "schedule",
        automation.pk,
        1,
    )
    assert child.authority_until == automation.expires_at
    revoke_automation(automation_id=automation.pk, actor=member)
    standing = read_standing(run_id=child.pk, tool="create_artifact")
    assert standing.grant is GrantState.REVOKED


@pytest.mark.django_db(transaction=True)
def test_an_allowance_is_for_one_automation_and_not_for_another_of_the_same_name(
    run: Run, automation: Automation, agent: Agent, letters: Letters
) -> None:
    other = make_member()
    theirs = make_agent(other, ceiling=OWN_TABLES)
    twin = make_automation(other, theirs, make_room(other, theirs)).automation
    assert twin.name == automation.name
    UnattendedAllowance.objects.create(trigger="schedule", automation=twin, tool="send_report")
    assert asked(run).state == "waiting"
    UnattendedAllowance.objects.create(
        trigger="schedule", automation=automation, tool="send_report"
    )
    passed = asked(run, step=2)
    assert passed.outcome == "ok"
    assert Waiver.objects.get(call=passed).kind == "allowed_unattended"
    assert len(letters.sent) == 1


def test_a_run_that_nobody_started_parks_and_frees_its_worker(run: Run, letters: Letters) -> None:
    from apps.runs.claims import fenced
    from apps.runs.services import park_run

    asked(run)
    with fenced(run_id=run.pk, fence=run.fence) as locked:
        park_run(run=locked)
    parked = Run.objects.get(pk=run.pk)
    assert (parked.state, parked.claimed_by, parked.claim_expires_at) == ("parked", "", None)
