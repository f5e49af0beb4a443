"""What administrators see of automations, for many as quickly as for few, and how they revoke."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission as Held
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.audit.models import AuditRow
from apps.automations.models import Automation
from apps.automations.starting import start_due
from apps.rooms.models import Room
from tests.factories.automations import make_automation, make_due

pytestmark = pytest.mark.django_db

LIST = reverse("admin:automations_automation_changelist")


@pytest.fixture
def keeper(client: Client) -> User:
    keeper = User.objects.create_user("ines", is_staff=True, is_superuser=True)
    client.force_login(keeper)
    return keeper


def cost(client: Client, address: str) -> int:
    client.get(address)
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address).status_code == 200
    return len(captured)


def test_a_list_of_many_costs_as_much_as_one_of_few(
    client: Client, keeper: User, member: User, agent: Agent, room: Room
) -> None:
    make_automation(member, agent, room)
    few = cost(client, LIST)
    for number in range(12):
        make_automation(member, agent, room, name=f"number {number}")
    assert cost(client, LIST) == few


def test_a_sheet_shows_the_grant_and_its_runs(
    client: Client, keeper: User, automation: Automation
) -> None:
    make_due(automation)
    start_due(automation_id=automation.pk)
    sheet = client.get(reverse("admin:automations_automation_change", args=[automation.pk]))
    page = sheet.content.decode()
    for words in ("weekly", "Write the report.", "0 6 * * *", "Queued"):
        assert words in page


def test_an_administrator_revokes_and_it_is_written_down(
    client: Client, keeper: User, automation: Automation
) -> None:
    sent = {"action": "revoke_selected", "_selected_action": [str(automation.pk)]}
    assert client.post(LIST, sent).status_code == 302
    automation.refresh_from_db()
    assert automation.state == "revoked"
    row = AuditRow.objects.get(action="automation.revoked")
    assert (row.actor, row.subject) == (keeper.key, automation.key)


def test_staff_that_may_look_may_not_revoke(
    client: Client, automation: Automation, db: Any
) -> None:
    staff = User.objects.create_user("staff", is_staff=True)
    staff.user_permissions.add(Held.objects.get(codename="view_automation"))
    client.force_login(staff)
    assert client.get(LIST).status_code == 200
    sent = {"action": "revoke_selected", "_selected_action": [str(automation.pk)]}
    client.post(LIST, sent)
    automation.refresh_from_db()
    assert automation.state == "active"
