"""The inbox: what waits for whom, and what became of it."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission as Held
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest, ModeChoice, Remembered
from apps.boundary.services import decide_approval
from apps.rooms.models import Room
from apps.runs.models import Run
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.questions import make_question
from tests.factories.rooms import claimed_run, crossed
from tests.web.conftest import signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(
    room: Room, agent: Agent, member: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ApprovalRequest:
    """A question that waits for the member."""
    offer(monkeypatch, outside_tool(Letters(tmp_path / "letters").handler))
    crossed(claimed_run(room, agent, member), "send_letter", {"to": "the secret addressee"})
    return ApprovalRequest.objects.get()


def test_the_lists_of_the_inbox_are_apart(
    asked: ApprovalRequest, member: User, agent: Agent
) -> None:
    client = signed_in(member)
    address = f'href="/approvals/{asked.pk}/"'
    for query, there in (
        ("", True),
        ("?show=waiting", True),
        (f"?agent={agent.slug}", True),
        ("?agent=other", False),
        ("?show=others", False),
        ("?show=decided", False),
        ("?show=nonsense", True),
    ):
        page = client.get(f"/approvals/{query}").content.decode()
        assert (address in page) is there, query
    ApprovalRequest.objects.update(second="administrator")
    decide_approval(
        approval_id=asked.pk, member=member, approve=True, arguments_digest=asked.arguments_digest
    )
    assert address in client.get("/approvals/?show=others").content.decode()
    assert "Nothing waits for you" in client.get("/approvals/").content.decode()


def test_runs_that_nobody_started_stand_apart(asked: ApprovalRequest, member: User) -> None:
    client = signed_in(member)
    assert "Someone is waiting" in client.get("/approvals/").content.decode()
    Run.objects.update(trigger="schedule")
    page = client.get("/approvals/").content.decode()
    assert "Runs no one started" in page
    assert "Someone is waiting" not in page


def test_many_requests_come_page_by_page_at_the_same_cost(
    asked: ApprovalRequest, member: User, django_assert_max_num_queries: Any
) -> None:
    for _ in range(59):
        make_question(asked.call.run)
    client = signed_in(member)
    client.get("/approvals/")
    with django_assert_max_num_queries(15):
        page = client.get("/approvals/").content.decode()
    assert page.count('class="it"') == 50
    assert "page=2" in page
    assert client.get("/approvals/?page=2").content.decode().count('class="it"') == 10


def test_who_gives_a_second_yes_finds_it_in_their_inbox(
    asked: ApprovalRequest, guest: User
) -> None:
    ApprovalRequest.objects.update(second="administrator")
    guest.user_permissions.add(Held.objects.get(codename="second_approval"))
    client = signed_in(User.objects.get(pk=guest.pk))
    page = client.get("/approvals/").content.decode()
    assert f'href="/approvals/{asked.pk}/"' in page
    assert "Two people" in page
    assert 'aria-label="1 waiting"' in client.get("/approvals/count/").content.decode()


def test_a_member_says_when_they_are_asked(member: User, room: Room, agent: Agent) -> None:
    client = signed_in(member)
    page = client.get("/approvals/when/").content.decode()
    assert 'value="as_declared" checked' in page
    assert client.post("/approvals/when/", {"mode": "always"}).status_code == 302
    here = {"room": str(room.pk), "agent": agent.slug}
    assert client.post("/approvals/when/", {"mode": "first_use", **here}).status_code == 302
    page = client.get("/approvals/when/").content.decode()
    assert 'value="always" checked' in page
    assert 'value="first_use" selected' in page
    assert client.post("/approvals/when/", {"mode": "", **here}).status_code == 302
    assert list(ModeChoice.objects.values_list("mode", flat=True)) == ["always"]
    for bad in ({"mode": "sometimes"}, {"mode": "always", "agent": "scribe"}):
        assert client.post("/approvals/when/", bad).status_code == 422
    foreign = {"mode": "always", "room": str(uuid.uuid4()), "agent": agent.slug}
    assert client.post("/approvals/when/", foreign).status_code == 404
    assert Client().get("/approvals/when/").status_code == 302


def test_what_passes_is_listed_and_can_be_taken_back(
    asked: ApprovalRequest, member: User, guest: User
) -> None:
    decide_approval(
        approval_id=asked.pk,
        member=member,
        approve=True,
        arguments_digest=asked.arguments_digest,
        remember=True,
    )
    kept = Remembered.objects.get()
    client = signed_in(member)
    assert "send_letter" in client.get("/approvals/when/").content.decode()
    taken = {"remembered": str(kept.pk)}
    assert signed_in(guest).post("/approvals/when/", taken).status_code == 404
    assert client.post("/approvals/when/", taken).status_code == 302
    assert not Remembered.objects.exists()


def test_an_empty_inbox_says_what_will_be_there(member: User) -> None:
    assert "Nothing waits for you" in signed_in(member).get("/approvals/").content.decode()


def test_the_inbox_lists_what_waits_without_its_arguments(
    asked: ApprovalRequest, member: User, room: Room
) -> None:
    page = signed_in(member).get("/approvals/").content.decode()
    assert f'href="/approvals/{asked.pk}/"' in page
    assert "Send a letter" in page
    assert room.name in page
    assert "the secret addressee" not in page


def test_nobody_sees_what_waits_for_somebody_else(asked: ApprovalRequest, guest: User) -> None:
    client = signed_in(guest)
    assert str(asked.pk) not in client.get("/approvals/").content.decode()
    assert client.get(f"/approvals/{asked.pk}/").status_code == 404
    assert client.get(f"/approvals/{uuid.uuid4()}/").status_code == 404


def test_a_request_has_an_address_of_its_own(asked: ApprovalRequest, member: User) -> None:
    page = signed_in(member).get(f"/approvals/{asked.pk}/").content.decode()
    assert f'"open": "{asked.pk}"' in page
    assert "the secret addressee" not in page


def test_the_navigation_counts_what_waits(asked: ApprovalRequest, member: User) -> None:
    client = signed_in(member)
    assert 'aria-label="1 waiting"' in client.get("/approvals/count/").content.decode()
    assert 'aria-label="1 waiting"' in client.get("/rooms/").content.decode()
    decide_approval(approval_id=asked.pk, member=member, approve=False, comment="no")
    assert 'aria-label="0 waiting"' in client.get("/approvals/count/").content.decode()


def test_what_was_decided_stays_readable(asked: ApprovalRequest, member: User) -> None:
    decide_approval(
        approval_id=asked.pk, member=member, approve=False, comment="keep <b>it</b> until Friday"
    )
    client = signed_in(member)
    for path in ("/approvals/", "/approvals/?show=decided", "/approvals/list/?show=decided"):
        page = client.get(path).content.decode()
        assert "Denied by you: “keep &lt;b&gt;it&lt;/b&gt; until Friday”" in page
    assert "Nothing waits for you" in client.get("/approvals/").content.decode()


def test_little_time_left_stands_out(asked: ApprovalRequest, member: User) -> None:
    client = signed_in(member)
    assert 'class="soon"' not in client.get("/approvals/").content.decode()
    soon = timezone.now() + timedelta(minutes=8, seconds=30)
    ApprovalRequest.objects.update(expires_at=soon)
    page = client.get("/approvals/").content.decode()
    assert 'class="soon"' in page
    assert "8 min left" in page
