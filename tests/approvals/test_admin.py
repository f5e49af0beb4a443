"""What administrators see of approvals, for many as quickly as for few, and what they rule."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.approvals.models import ApprovalRequest, ApprovalRule, UnattendedAllowance
from apps.audit.models import AuditRow
from apps.runs.models import Call, Run
from tests.factories.automations import OWN_TABLES, make_automation
from tests.factories.rooms import make_agent, make_member, make_room, make_run

pytestmark = pytest.mark.django_db

LIST = reverse("admin:approvals_approvalrequest_changelist")
# More than three pages of them; ten thousand are asked for where everything is counted.
MANY = 400
SECRET = "the secret addressee"


@pytest.fixture
def keeper(client: Client) -> User:
    keeper = User.objects.create_user("ines", is_staff=True, is_superuser=True)
    client.force_login(keeper)
    return keeper


@pytest.fixture
def asked_run(db: Any) -> Run:
    member = make_member("mara")
    agent = make_agent(member, slug="scribe")
    return make_run(make_room(member, agent), agent, member)


def make_requests(run: Run, count: int, *, state: str = "pending") -> None:
    first = Call.objects.filter(run=run).count()
    calls = Call.objects.bulk_create(
        Call(
            run=run,
            step=1 + number // 100,
            place=number % 100,
            proposal_id=f"p{number}",
            tool="send_letter",
            title="Send a letter",
            effect="write",
            arguments={"to": SECRET},
            arguments_digest="sha256:" + "0" * 64,
        )
        for number in range(first, first + count)
    )
    ApprovalRequest.objects.bulk_create(
        ApprovalRequest(
            call=call,
            decider=run.member,
            tool=call.tool,
            arguments_digest=call.arguments_digest,
            descriptor_digest="",
            state=state,
            expires_at=timezone.now() + timedelta(hours=1),
        )
        for call in calls
    )


def statements(client: Client, query: str = "") -> int:
    with CaptureQueriesContext(
        connection,
    ) as seen:
        page = client.get(f"{LIST}?{query}")
    assert page.status_code == 200
    assert SECRET not in page.content.decode()
    return len(seen)


def test_the_list_costs_the_same_for_hundreds_as_for_one(
    client: Client, keeper: User, asked_run: Run
) -> None:
    make_requests(asked_run, 1)
    statements(client)
    one = statements(client)
    make_requests(asked_run, MANY - 1)
    assert statements(client) == one
    assert statements(client, "state__exact=pending") <= one + 1
    assert statements(client, "p=3") == one


def test_the_list_is_filtered_and_nobody_decides_there(
    client: Client, keeper: User, asked_run: Run
) -> None:
    make_requests(asked_run, 2)
    make_requests(asked_run, 1, state="denied")
    for query, rows in (("", 3), ("state__exact=denied", 1), ("q=mara", 3), ("q=nobody", 0)):
        page = client.get(f"{LIST}?{query}").content.decode()
        assert page.count("send_letter</a>") == rows, query
    request = ApprovalRequest.objects.first()
    assert request is not None
    address = reverse("admin:approvals_approvalrequest_change", args=[request.pk])
    client.post(address, {"state": "approved"})
    request.refresh_from_db()
    assert request.state != "approved"
    assert client.get(reverse("admin:approvals_approvalrequest_add")).status_code == 403
    assert client.get(reverse("admin:approvals_waiver_changelist")).status_code == 200


def test_a_rule_is_an_administrators_and_is_written_down(client: Client, keeper: User) -> None:
    add = reverse("admin:approvals_approvalrule_add")
    words = {
        "family": "packages",
        "surface": "",
        "tool": "",
        "floor": "always",
        "never_allowed": "false",
        "second": "room_owner",
        "second_for": "writes",
        "expires_after_s": "3600",
        "note": "They write letters.",
    }
    too_long = client.post(add, {**words, "expires_after_s": "86401"})
    assert too_long.status_code == 200
    assert not ApprovalRule.objects.exists()
    assert client.post(add, words).status_code == 302
    rule = ApprovalRule.objects.get()
    assert (rule.floor, rule.never_allowed, rule.second) == ("always", False, "room_owner")
    row = AuditRow.objects.get(action="approval_rule.set")
    assert (row.actor, row.detail["node"]) == (keeper.key, "packages / all / all")
    drop = reverse("admin:approvals_approvalrule_delete", args=[rule.pk])
    assert client.post(drop, {"post": "yes"}).status_code == 302
    assert AuditRow.objects.filter(action="approval_rule.dropped").count() == 1


def test_an_allow_list_of_a_trigger_is_an_administrators_too(client: Client, keeper: User) -> None:
    add = reverse("admin:approvals_unattendedallowance_add")
    member = make_member("mara")
    agent = make_agent(member, ceiling=OWN_TABLES)
    weekly = make_automation(member, agent, make_room(member, agent)).automation
    words = {"trigger": "schedule", "automation": str(weekly.pk), "name": "", "tool": "send_report"}
    for wrong in (
        {"trigger": "event"},
        {"trigger": "webhook"},
        {"automation": ""},
        {"name": "weekly"},
        {"trigger": "mail"},
    ):
        assert client.post(add, {**words, **wrong}).status_code == 200, wrong
    assert client.post(add, words).status_code == 302
    allowance = UnattendedAllowance.objects.get()
    shown = client.get(reverse("admin:approvals_unattendedallowance_changelist")).content.decode()
    assert "weekly" in shown
    assert "mara" in shown
    drop = reverse("admin:approvals_unattendedallowance_delete", args=[allowance.pk])
    assert client.post(drop, {"post": "yes"}).status_code == 302
    actions = set(AuditRow.objects.values_list("action", flat=True))
    assert {"unattended.allowed", "unattended.forbidden"} <= actions


@pytest.mark.parametrize("page", ["approvalrule", "unattendedallowance"])
def test_staff_without_the_duty_changes_nothing(client: Client, page: str) -> None:
    client.force_login(User.objects.create_user("staff", is_staff=True))
    assert client.get(reverse(f"admin:approvals_{page}_changelist")).status_code == 403
    assert client.post(reverse(f"admin:approvals_{page}_add"), {}).status_code == 403
