"""A member looks at their workspace in the room's page, takes files from it, and deletes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from apps.accounts.models import User
from apps.core.deadlines import Deadline
from apps.rooms.models import Room
from apps.sandbox.contents import take_back
from apps.sandbox.leases import hold
from apps.sandbox.models import Workspace
from apps.sandbox.spec import WorkChanges, WorkFile
from tests.browser import opened_by

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("beside_a_browser"),
]

EMPTY = "It is empty. Agents put files here when they run code for you."


@pytest.fixture
def page(chromium: Browser, live_server: Any, settings: Any, member: User) -> Iterator[Page]:
    """The member's browser, signed in."""
    with opened_by(member, chromium, live_server, settings, accept_downloads=True) as page:
        yield page


def fill(member: User, room: Room, *files: WorkFile) -> None:
    deadline = Deadline.after(30)
    with hold(owner=member, room_id=room.pk, call_id=None, deadline=deadline) as lease:
        take_back(lease, WorkChanges(changed=files))


def opened(page: Page, room: Room) -> Locator:
    """The dialog, opened as a member opens it."""
    page.goto(f"/rooms/{room.pk}/")
    page.get_by_label("More about this room").click()
    page.get_by_role("button", name="Your workspace").click()
    dialog = page.get_by_role("dialog", name="Your workspace")
    expect(dialog).to_be_visible()
    return dialog


def test_a_workspace_that_was_never_used_says_so_and_offers_nothing_to_delete(
    page: Page, room: Room
) -> None:
    dialog = opened(page, room)
    expect(dialog.get_by_role("status")).to_have_text(EMPTY)
    expect(dialog.get_by_role("list", name="Files").get_by_role("listitem")).to_have_count(0)
    expect(dialog.get_by_role("button", name="Delete the workspace")).to_be_hidden()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()


def test_files_are_listed_with_their_sizes_and_hostile_names_are_only_names(
    page: Page, room: Room, member: User
) -> None:
    hostile = "<img src=x onerror=alert(1)>.txt"
    program = WorkFile("tools/run.sh", b"#!/bin/sh\n", executable=True)
    fill(member, room, WorkFile(hostile, b"1"), program)
    dialog = opened(page, room)
    rows = dialog.get_by_role("list", name="Files").get_by_role("listitem")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text(hostile)
    expect(rows.nth(1)).to_contain_text("tools/run.sh")
    expect(rows.nth(1)).to_contain_text("a program")
    expect(dialog.get_by_role("status")).to_have_text(re.compile(r"^2 files, .* of "))


def test_a_file_is_saved_in_its_exact_bytes(page: Page, room: Room, member: User) -> None:
    content = b"a,b\r\n" + bytes(range(256))
    fill(member, room, WorkFile("out/rows & more.csv", content))
    dialog = opened(page, room)
    with page.expect_download() as started:
        dialog.get_by_role("link", name="Download out/rows & more.csv").click()
    saved = started.value
    assert saved.suggested_filename == "rows & more.csv"
    assert saved.path().read_bytes() == content


def test_more_files_than_a_page_come_when_they_are_asked_for(
    page: Page, room: Room, member: User
) -> None:
    fill(member, room, *(WorkFile(f"rows-{number:03}.csv", b"1") for number in range(103)))
    dialog = opened(page, room)
    rows = dialog.get_by_role("list", name="Files").get_by_role("listitem")
    expect(rows).to_have_count(100)
    dialog.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(103)
    # The keyboard goes on where the new files begin.
    expect(dialog.get_by_role("link", name="Download rows-100.csv")).to_be_focused()
    expect(dialog.get_by_role("button", name="Show more")).to_be_hidden()


def test_nothing_is_deleted_unless_it_is_confirmed(page: Page, room: Room, member: User) -> None:
    fill(member, room, WorkFile("rows.csv", b"1"))
    dialog = opened(page, room)
    dialog.get_by_role("button", name="Delete the workspace").click()
    question = page.get_by_role("dialog", name="Delete your workspace?")
    expect(question.get_by_role("button", name="Keep it")).to_be_focused()
    page.keyboard.press("Enter")
    expect(question).to_be_hidden()
    expect(dialog.get_by_role("listitem")).to_have_count(1)
    assert Workspace.objects.filter(owner=member, room=room).exists()
    dialog.get_by_role("button", name="Delete the workspace").click()
    question.get_by_role("button", name="Delete the workspace").click()
    expect(dialog.get_by_role("status")).to_have_text(EMPTY)
    expect(question).to_be_hidden()
    expect(dialog.get_by_role("listitem")).to_have_count(0)
    assert not Workspace.objects.filter(owner=member, room=room).exists()


def test_what_cannot_be_deleted_now_stays_and_says_why(
    page: Page, room: Room, member: User
) -> None:
    fill(member, room, WorkFile("rows.csv", b"1"))
    dialog = opened(page, room)
    dialog.get_by_role("button", name="Delete the workspace").click()
    question = page.get_by_role("dialog", name="Delete your workspace?")
    with hold(owner=member, room_id=room.pk, call_id=None, deadline=Deadline.after(30)):
        # A call came to work in it after the page had looked.
        question.get_by_role("button", name="Delete the workspace").click()
        expect(dialog.locator("[data-problem]")).not_to_be_empty()
    expect(dialog.get_by_role("listitem")).to_have_count(1)
    assert Workspace.objects.filter(owner=member, room=room).exists()
