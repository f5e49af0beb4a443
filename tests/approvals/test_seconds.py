"""Where the rules ask two people, it takes two people."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission as Held

from apps.accounts.models import User
from apps.approvals.errors import AlreadyAnswered, RequestNotFound
from apps.approvals.models import Answer, ApprovalRequest, ApprovalRule, Receipt
from apps.approvals.selectors import pending_approvals_for, requests_waiting_for_others
from apps.audit.models import AuditRow
from apps.boundary import pipeline
from apps.boundary.approval_sheet import approval_sheet
from apps.boundary.services import decide_approval
from apps.rooms.models import RoomEvent
from apps.runs.bodies import projection_of
from apps.runs.models import Call, Run
from apps.runs.services import add_seat
from tests.factories.effects import Letters
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def administrator(member: User) -> User:
    chief = make_member("chief")
    chief.user_permissions.add(Held.objects.get(codename="second_approval"))
    return chief


@pytest.fixture
def asked(run: Run) -> ApprovalRequest:
    ApprovalRule.objects.create(second="administrator")
    crossed(run, "send_money", {"to": "anna"})
    return ApprovalRequest.objects.get()


def answer(asked: ApprovalRequest, person: User, yes: bool = True, comment: str = "") -> None:
    decide_approval(
        approval_id=asked.pk,
        member=person,
        approve=yes,
        arguments_digest=asked.arguments_digest,
        comment=comment,
    )


def execute(asked: ApprovalRequest) -> Call:
    pipeline.execute_waiting(call_id=asked.call_id, executor="worker")
    return Call.objects.get(pk=asked.call_id)


@pytest.mark.parametrize("member_first", [True, False])
def test_one_yes_is_not_enough_and_two_are(
    asked: ApprovalRequest,
    member: User,
    administrator: User,
    letters: Letters,
    member_first: bool,
) -> None:
    first, second = (member, administrator) if member_first else (administrator, member)
    answer(asked, first)
    assert (execute(asked).state, letters.sent) == ("waiting", [])
    assert Receipt.objects.count() == 0
    assert [r.pk for r in requests_waiting_for_others(first)] == [asked.pk]
    assert [r.pk for r in pending_approvals_for(second)] == [asked.pk]
    assert RoomEvent.objects.filter(kind="approval.answered").count() == 1
    answer(asked, second)
    assert execute(asked).outcome == "ok"
    receipt = Receipt.objects.get()
    assert (receipt.actor, receipt.seconded_by) == (member, administrator)
    assert len(letters.sent) == 1


def test_nobody_says_both(
    asked: ApprovalRequest, member: User, administrator: User, letters: Letters
) -> None:
    member.user_permissions.add(Held.objects.get(codename="second_approval"))
    answer(asked, member)
    with pytest.raises(AlreadyAnswered):
        answer(asked, User.objects.get(pk=member.pk))
    assert (execute(asked).state, letters.sent) == ("waiting", [])


def test_the_second_yes_is_given_once(asked: ApprovalRequest, administrator: User) -> None:
    other = make_member("deputy")
    other.user_permissions.add(Held.objects.get(codename="second_approval"))
    answer(asked, administrator)
    with pytest.raises(AlreadyAnswered):
        answer(asked, other)
    assert Answer.objects.count() == 1


@pytest.mark.parametrize("who", ["member", "administrator"])
def test_either_no_denies(
    asked: ApprovalRequest,
    member: User,
    administrator: User,
    letters: Letters,
    who: str,
) -> None:
    one, other = (member, administrator) if who == "administrator" else (administrator, member)
    answer(asked, one)
    answer(asked, other, yes=False, comment="too much")
    call = execute(asked)
    assert (call.outcome, call.reason, letters.sent) == ("denied", "approval_denied", [])
    assert "too much" in (projection_of(call) or {})["message"]
    assert AuditRow.objects.filter(action="approval.denied", actor=other.key).exists()


def test_both_see_the_exact_arguments_and_nobody_else_does(
    asked: ApprovalRequest, member: User, administrator: User, guest: User
) -> None:
    for person in (member, administrator):
        sheet = approval_sheet(approval_id=asked.pk, decider=person)
        assert sheet.arguments == {"to": "anna"}
    with pytest.raises(RequestNotFound):
        approval_sheet(approval_id=asked.pk, decider=guest)
    with pytest.raises(RequestNotFound):
        answer(asked, guest)


def test_an_administrator_who_lost_the_duty_is_not_asked_any_more(
    asked: ApprovalRequest, administrator: User
) -> None:
    administrator.user_permissions.clear()
    with pytest.raises(RequestNotFound):
        answer(asked, User.objects.get(pk=administrator.pk))


def test_a_rooms_owner_agrees_to_what_a_guests_run_does_and_never_to_their_own(
    member: User, guest: User, administrator: User, letters: Letters
) -> None:
    ApprovalRule.objects.create(second="room_owner")
    agent = make_agent(guest, slug="helper")
    room = make_room(member, None, guest)
    add_seat(room_id=room.pk, member=guest, agent_slug=agent.slug)
    run = claimed_run(room, agent, guest)
    crossed(run, "send_money", {"to": "anna"})
    asked = ApprovalRequest.objects.get()
    answer(asked, guest)
    answer(asked, member)
    assert execute(asked).outcome == "ok"

    own = make_room(member, make_agent(member, slug="mine"))
    mine = claimed_run(own, own.seats.get().agent, member)
    crossed(mine, "send_money", {"to": "bea"})
    request = ApprovalRequest.objects.exclude(pk=asked.pk).get()
    answer(request, member)
    assert execute(request).state == "waiting"
    answer(request, administrator)
    assert execute(request).outcome == "ok"
