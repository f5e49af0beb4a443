"""The inbox: what waits for whom, and what became of it."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest
from apps.boundary.services import decide_approval
from apps.rooms.models import Room
from tests.factories.effects import Letters, offer, outside_tool
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
