"""A member's page of what starts by itself: what there is, how it stands, and a new one."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.automations.models import Automation
from apps.automations.starting import start_due
from apps.rooms.models import Room
from apps.rooms.services import close_room
from tests.factories.automations import OWN_TABLES, make_automation, make_due
from tests.factories.rooms import make_agent, make_room
from tests.web.conftest import signed_in

pytestmark = pytest.mark.django_db

AT = "/automations/"


@pytest.fixture
def place(member: User) -> tuple[Room, Agent]:
    agent = make_agent(member, slug="clerk", ceiling=OWN_TABLES)
    return make_room(member, agent), agent


def filled(place: tuple[Room, Agent], **more: str) -> dict[str, str]:
    room, agent = place
    return {
        "do": "create",
        "name": "weekly",
        "place": f"{room.pk} {agent.slug}",
        "trigger": "schedule",
        "schedule": "0 6 * * mon",
        "time_zone": "Europe/Zurich",
        "words": "Write the report.",
        "days": "30",
        **more,
    }


def shown(client: Client, query: str = "") -> str:
    return client.get(f"{AT}{query}").content.decode()


def test_a_page_without_any_says_what_they_are_for(member: User) -> None:
    page = shown(signed_in(member))
    assert "Nothing starts by itself for you" in page
    assert 'href="/automations/" title="Automations" aria-current="page"' in page


def test_where_no_agent_has_a_place_the_page_says_what_to_do_instead_of_showing_a_form(
    member: User, place: tuple[Room, Agent]
) -> None:
    room, _ = place
    client = signed_in(member)
    assert 'name="schedule"' in shown(client)
    close_room(room_id=room.pk, actor=member)
    page = shown(client)
    assert "No agent could work for you yet" in page
    assert 'href="/rooms/"' in page
    assert 'name="schedule"' not in page


def test_a_member_makes_one_and_sees_when_it_starts(member: User, place: Any) -> None:
    client = signed_in(member)
    assert client.post(AT, filled(place)).status_code == 302
    page = shown(client)
    due = Automation.objects.get().next_due_at
    assert due is not None
    assert f"{due.astimezone(timezone.get_current_timezone()):%H:%M}" in page
    assert "next start" in page
    assert "Write the report." in page
    assert "Nothing was started yet" in page


def test_what_is_wrong_is_said_at_its_field_and_nothing_written_is_lost(
    member: User, place: Any
) -> None:
    client = signed_in(member)
    for wrong, field in (
        ({"schedule": "* * * * *"}, "schedule"),
        ({"schedule": ""}, "schedule"),
        ({"time_zone": "Mars"}, "time_zone"),
        ({"days": "91"}, "days"),
        ({"name": ""}, "name"),
        ({"place": f"{uuid.uuid4()} clerk"}, "place"),
    ):
        answered = client.post(AT, {**filled(place), **wrong})
        assert answered.status_code == 422, wrong
        page = answered.content.decode()
        assert f'id="id_{field}_error"' in page, wrong
        form = page.split('id="new-automation"')[1]
        marked = re.findall(r'<\w+ [^>]*name="(\w+)"[^>]* autofocus', form)
        assert marked[:1] == [field], wrong
        assert "Write the report." in page
    assert not Automation.objects.exists()


def test_a_webhooks_token_is_shown_once(member: User, place: Any) -> None:
    client = signed_in(member)
    answered = client.post(AT, filled(place, trigger="webhook"))
    token = re.search(r"Authorization: Bearer ([\w-]{40,})", answered.content.decode())
    assert token is not None
    assert "no-store" in answered["Cache-Control"]
    page = shown(client)
    assert token[1] not in page
    hook = Automation.objects.get()
    new = client.post(AT, {"do": "token", "automation": str(hook.pk)}).content.decode()
    assert "Authorization: Bearer " in new
    assert token[1] not in new


def test_a_member_pauses_resumes_revokes_and_deletes(member: User, place: Any) -> None:
    client = signed_in(member)
    client.post(AT, filled(place))
    for do, says in (("pause", "Paused"), ("resume", "Active"), ("revoke", "Revoked")):
        sent = {"do": do, "automation": str(Automation.objects.get().pk)}
        assert client.post(AT, sent).status_code == 302
        assert f"{says}</span>" in shown(client)
    # What was revoked stays so, and says it.
    again = client.post(AT, {"do": "resume", "automation": str(Automation.objects.get().pk)})
    assert again.status_code == 409
    assert "was revoked" in again.content.decode()
    client.post(AT, {"do": "delete", "automation": str(Automation.objects.get().pk)})
    assert not Automation.objects.exists()


def test_why_nothing_started_is_said(member: User, place: tuple[Room, Agent]) -> None:
    room, agent = place
    automation = make_automation(member, agent, room).automation
    close_room(room_id=room.pk, actor=member)
    make_due(automation)
    start_due(automation_id=automation.pk)
    assert "Last: not started just now. The room is closed." in shown(signed_in(member))


def test_nobody_reaches_what_belongs_to_others(
    member: User, guest: User, place: tuple[Room, Agent]
) -> None:
    room, agent = place
    automation = make_automation(member, agent, room).automation
    client = signed_in(guest)
    assert "weekly" not in shown(client)
    for do in ("pause", "resume", "token", "revoke", "delete"):
        sent = {"do": do, "automation": str(automation.pk)}
        assert client.post(AT, sent).status_code == 404, do
    # An administrator's duty is done in the administration.
    ines = User.objects.create_superuser("ines", password="a long enough secret")
    sent = {"do": "revoke", "automation": str(automation.pk)}
    assert signed_in(ines).post(AT, sent).status_code == 404
    assert Client().get(AT).status_code == 302


@pytest.mark.parametrize("sent", [{}, {"do": "fly"}, {"do": "pause", "automation": "a\x00b"}])
def test_what_makes_no_sense_is_answered(member: User, sent: dict[str, str]) -> None:
    assert signed_in(member).post(AT, sent).status_code == 422
    assert signed_in(member).get(f"{AT}?page=a%00b").status_code == 200


def test_many_come_page_by_page_at_the_same_cost(
    member: User, place: tuple[Room, Agent], django_assert_max_num_queries: Any
) -> None:
    room, agent = place
    for number in range(23):
        make_automation(member, agent, room, name=f"number {number}")
    client = signed_in(member)
    client.get(AT)
    with django_assert_max_num_queries(14):
        page = shown(client)
    assert page.count("<article") == 20
    assert shown(client, "?page=2").count("<article") == 3
