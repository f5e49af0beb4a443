"""What members choose, and what rules make of it, at real calls."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.approvals import wishes
from apps.approvals.models import (
    ApprovalRequest,
    ApprovalRule,
    Receipt,
    Remembered,
    UnattendedAllowance,
    Waiver,
)
from apps.audit.models import AuditRow
from apps.automations.models import Automation
from apps.boundary import pipeline
from apps.boundary.crossing import Settled
from apps.boundary.services import decide_approval
from apps.core.errors import Refusal
from apps.runs.models import Call, Run
from tests.factories.effects import Letters
from tests.factories.rooms import crossed, make_agent, make_room

pytestmark = pytest.mark.django_db(transaction=True)

_steps = itertools.count(1)


def call(run: Run, tool: str = "send_letter", to: str = "anna", **more: Any) -> Call:
    """Propose a call, and let a worker look at it once."""
    stepped = crossed(run, tool, {"to": to}, step=next(_steps))
    pipeline.execute_waiting(call_id=stepped.call.pk, executor="worker")
    return Call.objects.get(pk=stepped.call.pk)


def yes(asked: Call, member: User, **how: Any) -> Call:
    request = ApprovalRequest.objects.get(call=asked)
    decide_approval(
        approval_id=request.pk,
        member=member,
        approve=True,
        arguments_digest=request.arguments_digest,
        **how,
    )
    pipeline.execute_waiting(call_id=asked.pk, executor="worker")
    return Call.objects.get(pk=asked.pk)


def choose(run: Run, mode: str, *, here: bool = False) -> None:
    if here:
        wishes.choose_mode(
            member=run.member, mode=mode, room_id=run.room_id, agent_slug=run.agent.slug
        )
    else:
        wishes.choose_mode(member=run.member, mode=mode)


def test_a_first_use_asks_once_for_exactly_this_call(
    run: Run, member: User, letters: Letters
) -> None:
    choose(run, "first_use")
    assert yes(call(run), member).outcome == "ok"
    again = call(run)
    assert (again.outcome, again.needs_receipt) == ("ok", False)
    assert Waiver.objects.get(call=again).kind == "first_use"
    assert call(run, to="bea").state == "waiting"
    assert len(letters.sent) == 2


def test_a_first_use_counts_in_its_own_room_for_its_own_member_and_tool(
    run: Run, member: User, guest: User, letters: Letters
) -> None:
    choose(run, "first_use")
    yes(call(run), member)
    kept = Remembered.objects.get()
    assert (kept.member, kept.room_id, kept.tool) == (member, run.room_id, "send_letter")
    for change in (
        {"room": make_room(member)},
        {"member": guest},
        {"descriptor_digest": "sha256:" + "0" * 64},
    ):
        Remembered.objects.all().delete()
        Remembered.objects.create(**{**_as_dict(kept), **change})
        assert call(run).state == "waiting"
    assert len(letters.sent) == 1


def _as_dict(kept: Remembered) -> dict[str, Any]:
    return {
        "member": kept.member,
        "room": kept.room,
        "tool": kept.tool,
        "arguments_digest": kept.arguments_digest,
        "descriptor_digest": kept.descriptor_digest,
    }


def test_a_yes_for_this_once_is_not_remembered_and_one_for_all_is(
    run: Run, member: User, letters: Letters
) -> None:
    choose(run, "first_use")
    yes(call(run), member, remember=False)
    assert call(run).state == "waiting"
    wishes.forget_mode(member=member)
    yes(call(run), member)
    assert call(run).state == "waiting"
    yes(call(run), member, remember=True)
    assert call(run).outcome == "ok"
    wishes.forget(remembered_id=Remembered.objects.get().pk, member=member)
    assert call(run).state == "waiting"
    actions = set(AuditRow.objects.values_list("action", flat=True))
    assert {"approval.remembered", "approval.forgotten", "approval.waived"} <= actions


def test_a_sensitive_call_is_never_allowed_once_for_all(
    run: Run, member: User, letters: Letters
) -> None:
    asked = call(run, "send_money")
    with pytest.raises(Refusal) as refused:
        yes(asked, member, remember=True)
    assert refused.value.field == "remember"
    assert yes(asked, member).outcome == "ok"
    assert call(run, "send_money").state == "waiting"


def test_always_asks_even_before_the_members_own_store(run: Run, member: User) -> None:
    choose(run, "always", here=True)
    stepped = crossed(run, "create_artifact", {"title": "A", "kind": "text", "body": "b"}, step=1)
    assert stepped.call.state == "waiting"
    done = yes(stepped.call, member)
    assert done.outcome == "ok"


def test_the_choice_for_an_agent_in_a_room_counts_before_the_general_one(
    run: Run, member: User, letters: Letters
) -> None:
    ApprovalRule.objects.create(never_allowed=True)
    choose(run, "always")
    choose(run, "never", here=True)
    assert call(run).outcome == "ok"
    wishes.forget_mode(member=member, room_id=run.room_id, agent_slug="scribe")
    assert call(run).state == "waiting"
    other = make_agent(member, slug="other")
    with pytest.raises(Refusal):
        wishes.choose_mode(member=member, mode="never", room_id=run.room_id, agent_slug=other.slug)


def test_never_asking_is_recorded_apart_from_an_approval(
    run: Run, member: User, letters: Letters
) -> None:
    choose(run, "never")
    assert call(run).state == "waiting"
    ApprovalRule.objects.create(tool="send_letter", never_allowed=True)
    passed = call(run)
    assert (passed.outcome, Receipt.objects.filter(call=passed).count()) == ("ok", 0)
    assert Waiver.objects.get(call=passed).kind == "never_ask"
    row = AuditRow.objects.get(action="approval.waived")
    assert row.detail["why"] == "never_ask"
    ApprovalRule.objects.create(never_allowed=False)
    assert call(run).state == "waiting"
    assert len(letters.sent) == 1


def test_a_floor_holds_for_a_family_a_surface_or_a_tool(run: Run, letters: Letters) -> None:
    places: list[dict[str, Any]] = [{"family": "kaizen"}, {"tool": "search_about"}, {}]
    for place in places:
        rule = ApprovalRule.objects.create(**place, floor="always")
        stepped = crossed(run, "search_about", {"query": "room"}, step=next(_steps))
        assert stepped.call.state == "waiting", place
        rule.delete()
    stepped = crossed(run, "search_about", {"query": "room"}, step=next(_steps))
    assert isinstance(stepped, Settled)


def test_a_rule_sets_how_long_a_question_stays_open(run: Run, letters: Letters) -> None:
    ApprovalRule.objects.create(expires_after_s=120)
    request = ApprovalRequest.objects.get(call=call(run))
    assert 100 < (request.expires_at - request.created_at).total_seconds() <= 121


def test_rules_that_tighten_after_a_yes_stop_the_call(
    run: Run, member: User, letters: Letters
) -> None:
    asked = call(run, "send_money")
    request = ApprovalRequest.objects.get(call=asked)
    decide_approval(
        approval_id=request.pk,
        member=member,
        approve=True,
        arguments_digest=request.arguments_digest,
    )
    ApprovalRule.objects.create(second="administrator")
    pipeline.execute_waiting(call_id=asked.pk, executor="worker")
    asked.refresh_from_db()
    assert (asked.outcome, asked.reason, letters.sent) == ("denied", "approval_denied", [])


def start_by(run: Run, trigger: str, name: str = "any") -> Automation:
    """Let a run have been started by something that a member granted, of whatever kind."""
    grant, _ = Automation.objects.get_or_create(
        member=run.member,
        agent=run.agent,
        room=run.room,
        trigger=trigger,
        name=f"{trigger} {name}",
        schedule="0 6 * * *" if trigger == "schedule" else "",
        defaults={"words": "Work.", "expires_at": timezone.now() + timedelta(days=1)},
    )
    Run.objects.filter(pk=run.pk).update(
        trigger=trigger,
        automation_id=grant.pk,
        automation_revision=grant.revision,
        authority_until=grant.expires_at,
    )
    return grant


def test_an_unattended_run_asks_for_every_call_whatever_its_member_allowed(
    run: Run, member: User, letters: Letters
) -> None:
    ApprovalRule.objects.create(never_allowed=True)
    choose(run, "never")
    assert call(run, "send_report").outcome == "ok"
    start_by(run, "schedule")
    asked = call(run, "send_report")
    assert asked.state == "waiting"
    with pytest.raises(Refusal):
        yes(asked, member, remember=True)
    assert yes(asked, member).outcome == "ok"
    assert call(run, "send_report").state == "waiting"
    assert call(run, "send_letter").outcome == "ok"


def test_a_named_trigger_may_use_a_tool_in_its_own_runs_only(
    run: Run, member: User, letters: Letters
) -> None:
    weekly = start_by(run, "schedule", "weekly")
    UnattendedAllowance.objects.create(trigger="schedule", automation=weekly, tool="send_report")
    start_by(run, "schedule", "daily")
    assert call(run, "send_report").state == "waiting"
    start_by(run, "webhook", "weekly")
    assert call(run, "send_report").state == "waiting"
    start_by(run, "schedule", "weekly")
    passed = call(run, "send_report")
    assert passed.outcome == "ok"
    assert Waiver.objects.get(call=passed).kind == "allowed_unattended"


def test_a_run_that_a_mail_started_asks_before_everything_that_is_not_a_read(
    run: Run, letters: Letters
) -> None:
    start_by(run, "mail")
    stepped = crossed(
        run, "create_artifact", {"title": "A", "kind": "text", "body": "b"}, step=next(_steps)
    )
    assert stepped.call.state == "waiting"
    stepped = crossed(run, "search_about", {"query": "room"}, step=next(_steps))
    assert isinstance(stepped, Settled)
