"""A person puts other arguments in place of those that a model proposed."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import Permission as Held

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.errors import (
    AlreadyDecided,
    NotTheDecider,
    NotWhatWasShown,
    RequestNotFound,
)
from apps.approvals.models import ApprovalRequest, ApprovalRule, Receipt
from apps.audit.models import AuditRow
from apps.boundary import pipeline
from apps.boundary.edits import edit_approval
from apps.boundary.errors import EditRefused
from apps.boundary.services import decide_approval, stop_run
from apps.core.errors import Refusal
from apps.grants.models import PinnedArguments, PolicyState
from apps.runs.bodies import arguments_of, projection_of
from apps.runs.claims import fenced
from apps.runs.errors import RunOver
from apps.runs.models import Call, Run
from apps.runs.services import park_run
from tests.factories.effects import Letters, outside_tool
from tests.factories.rooms import crossed, make_member

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def asked(run: Run) -> ApprovalRequest:
    crossed(run, "send_letter", {"to": "anna"})
    with fenced(run_id=run.pk, fence=run.fence) as locked:
        park_run(run=locked)
    return ApprovalRequest.objects.get()


def edit(asked: ApprovalRequest, person: User, **arguments: Any) -> ApprovalRequest | None:
    edited = edit_approval(
        approval_id=asked.pk,
        member=person,
        arguments_digest=asked.arguments_digest,
        arguments=arguments,
    )
    return edited.request


def test_an_edit_is_a_new_call_with_its_own_digest_and_yes(
    asked: ApprovalRequest, member: User, run: Run, letters: Letters
) -> None:
    made = edit(asked, member, to="bea")
    assert made is not None
    old, new = Call.objects.get(pk=asked.call_id), made.call
    assert new.arguments_digest != old.arguments_digest
    assert (old.outcome, old.rule) == ("denied", "somebody_said_yes")
    assert (arguments_of(old), arguments_of(new)) == ({"to": "anna"}, {"to": "bea"})
    assert (made.state, made.replaces_id) == ("approved", asked.pk)
    assert Receipt.objects.get().call_id == new.pk
    run.refresh_from_db()
    assert run.state == "parked"  # the run waits for the call that took the place
    for call in (old, new):
        pipeline.execute_waiting(call_id=call.pk, executor="worker")
    assert [line.split()[1] for line in letters.sent] == ["bea"]
    run.refresh_from_db()
    assert run.state == "queued"


def test_the_model_is_told_whose_arguments_took_the_place(
    asked: ApprovalRequest, member: User, letters: Letters
) -> None:
    made = edit(asked, member, to="bea")
    assert made is not None
    old = Call.objects.get(pk=asked.call_id)
    assert (old.outcome, old.reason) == ("denied", "superseded")
    told = projection_of(old) or {}
    assert "mara proposed other arguments" in told["message"]
    assert told["replaced_by"] == {"call": str(made.call_id), "arguments": {"to": "bea"}}
    asked.refresh_from_db()
    assert (asked.state, asked.decided_by) == ("replaced", member)
    assert AuditRow.objects.filter(action="approval.replaced").count() == 1


def test_a_bad_edit_names_the_field_and_changes_nothing(
    asked: ApprovalRequest, member: User, letters: Letters
) -> None:
    for arguments in ({"to": 7}, {}, {"to": "bea", "cc": "eve"}, {"to": "anna"}):
        with pytest.raises(EditRefused) as refused:
            edit(asked, member, **arguments)
        assert refused.value.field == "arguments"
    with pytest.raises(EditRefused) as refused:
        edit(asked, member, to=7)
    assert refused.value.extra["errors"][0]["field"] == "arguments/to"
    asked.refresh_from_db()
    assert (asked.state, Call.objects.count()) == ("pending", 1)


def test_an_edit_is_judged_like_any_proposal_and_a_refusal_leaves_the_question(
    asked: ApprovalRequest, member: User, run: Run
) -> None:
    Agent.objects.update(ceiling=["artifacts.read"])
    with pytest.raises(EditRefused) as refused:
        edit(asked, member, to="bea")
    assert refused.value.extra["rule"] == "agent_ceiling_covers"
    asked.refresh_from_db()
    assert (asked.state, Call.objects.count()) == ("pending", 1)


def test_only_the_one_who_is_asked_edits_what_they_were_shown(
    asked: ApprovalRequest, member: User, guest: User
) -> None:
    with pytest.raises(RequestNotFound):
        edit(asked, guest, to="bea")
    with pytest.raises(NotWhatWasShown):
        edit_approval(
            approval_id=asked.pk,
            member=member,
            arguments_digest="sha256:other",
            arguments={"to": "bea"},
        )
    decide_approval(approval_id=asked.pk, member=member, approve=False)
    with pytest.raises(Refusal):
        edit(asked, member, to="bea")


def test_what_ended_or_was_changed_before_cannot_be_edited(
    asked: ApprovalRequest, member: User, run: Run
) -> None:
    edit(asked, member, to="bea")
    with pytest.raises(AlreadyDecided):
        edit(asked, member, to="cleo")
    stop_run(run_id=run.pk, member=member)
    with pytest.raises(RunOver) as over:
        edit(asked, member, to="cleo")
    assert over.value.status == 409


def test_the_second_person_is_asked_about_the_new_arguments(
    run: Run, member: User, letters: Letters
) -> None:
    ApprovalRule.objects.create(second="administrator")
    chief = make_member("chief")
    chief.user_permissions.add(Held.objects.get(codename="second_approval"))
    crossed(run, "send_money", {"to": "anna"})
    asked = ApprovalRequest.objects.get()
    decide_approval(
        approval_id=asked.pk,
        member=chief,
        approve=True,
        arguments_digest=asked.arguments_digest,
    )
    with pytest.raises(NotTheDecider):
        edit(asked, chief, to="bea")
    made = edit(asked, member, to="bea")
    assert made is not None
    assert (made.state, Receipt.objects.count()) == ("pending", 0)
    decide_approval(
        approval_id=made.pk, member=chief, approve=True, arguments_digest=made.arguments_digest
    )
    pipeline.execute_waiting(call_id=made.call_id, executor="worker")
    assert [line.split()[1] for line in letters.sent] == ["bea"]


def test_what_the_deployment_pins_stays_as_it_is(
    asked: ApprovalRequest, member: User, letters: Letters
) -> None:
    spec = outside_tool(letters.handler).spec
    PinnedArguments.objects.create(
        family=spec.family.value,
        surface=spec.surface,
        endpoint=spec.name,
        values={"to": "anna"},
        changed_by=member,
    )
    PolicyState.objects.update_or_create(id=1, defaults={"mark": uuid.uuid4()})
    with pytest.raises(EditRefused) as refused:
        edit(asked, member, to="bea")
    assert refused.value.extra["errors"][0]["rule"] == "argument_is_pinned"
