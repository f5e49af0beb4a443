"""On a phone nothing that is decided about is hidden; what is pressed is in reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest
from apps.boundary.services import decide_approval
from apps.core.deadlines import Deadline
from apps.rooms.models import Room
from apps.runs.claims import fenced
from apps.runs.services import park_run
from apps.sandbox.contents import take_back
from apps.sandbox.leases import hold
from apps.sandbox.spec import WorkChanges, WorkFile
from tests.browser import PHONE, opened_by
from tests.factories.effects import Letters, offer, outside_tool
from tests.factories.rooms import claimed_run, crossed

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("beside_a_browser"),
]

FINGER = 44
UNBROKEN = "Unteilbar" * 13
LONG = "a letter that goes on " * 30 + "to its very end"


@pytest.fixture
def phone(chromium: Browser, live_server: Any, settings: Any, member: User) -> Iterator[Page]:
    """The member's phone, signed in."""
    with opened_by(member, chromium, live_server, settings, viewport=PHONE) as page:
        yield page


@pytest.fixture
def asked(
    room: Room, agent: Agent, member: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ApprovalRequest:
    """A question about a long argument, for which a run is parked."""
    Room.objects.filter(pk=room.pk).update(name=UNBROKEN)
    offer(monkeypatch, outside_tool(Letters(tmp_path / "letters").handler))
    run = claimed_run(room, agent, member)
    crossed(run, "send_letter", {"to": LONG})
    with fenced(run_id=run.pk, fence=run.fence) as locked:
        park_run(run=locked)
    return ApprovalRequest.objects.get()


def in_reach(control: Locator) -> None:
    """A finger hits it, and it lies on the screen."""
    box = control.bounding_box()
    assert box is not None
    assert box["height"] >= FINGER, box
    assert box["width"] >= FINGER, box
    assert box["x"] >= 0, box
    assert box["x"] + box["width"] <= PHONE["width"], box


@pytest.mark.parametrize("place", ["inbox", "room"])
def test_whoever_decides_sees_the_whole_of_a_long_argument(
    phone: Page, asked: ApprovalRequest, room: Room, place: str
) -> None:
    phone.goto(f"/approvals/{asked.pk}/" if place == "inbox" else f"/rooms/{room.pk}/")
    argument = phone.get_by_role("group", name="Exact arguments").get_by_text("to its very end")
    expect(argument).to_be_visible()
    argument.scroll_into_view_if_needed()
    for verb in ("Approve", "Edit", "Deny"):
        in_reach(phone.get_by_role("button", name=verb, exact=True))


def test_a_name_without_a_break_pushes_nothing_off_the_screen(
    phone: Page, asked: ApprovalRequest, room: Room
) -> None:
    phone.goto(f"/rooms/{room.pk}/")
    in_reach(phone.get_by_label("Back to rooms"))
    in_reach(phone.get_by_label("More about this room"))
    in_reach(phone.get_by_role("button", name="Stop"))
    phone.goto(f"/approvals/{asked.pk}/")
    expect(phone.get_by_text("to its very end")).to_be_visible()
    left = phone.locator("[data-until]").bounding_box()
    link = phone.locator(".req").get_by_role("link", name=UNBROKEN).bounding_box()
    assert left is not None
    assert link is not None
    assert link["x"] + link["width"] <= left["x"]


def test_a_file_with_an_endless_name_can_still_be_taken(
    phone: Page, room: Room, member: User
) -> None:
    deadline = Deadline.after(30)
    with hold(owner=member, room_id=room.pk, call_id=None, deadline=deadline) as lease:
        take_back(lease, WorkChanges(changed=(WorkFile("rows-" + "x" * 120, b"1"),)))
    phone.goto(f"/rooms/{room.pk}/")
    phone.get_by_label("More about this room").click()
    phone.get_by_role("button", name="Your workspace").click()
    dialog = phone.get_by_role("dialog", name="Your workspace")
    in_reach(dialog.get_by_role("link", name="Download rows-"))
    in_reach(dialog.get_by_role("button", name="Delete the workspace"))


def test_after_the_members_yes_the_room_says_that_somebody_else_is_waited_for(
    phone: Page, asked: ApprovalRequest, room: Room, agent: Agent, member: User
) -> None:
    ApprovalRequest.objects.update(second="administrator")
    phone.goto(f"/rooms/{room.pk}/")
    line = phone.locator("[data-working]")
    expect(line).to_contain_text(f"{agent.name} waits for you")
    decide_approval(
        approval_id=asked.pk, member=member, approve=True, arguments_digest=asked.arguments_digest
    )
    phone.reload()
    expect(line).to_contain_text(f"{agent.name} waits for a second person")
