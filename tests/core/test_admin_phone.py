"""On a phone an administrator's table shows each value beside its name, and no side is cut off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from apps.accounts.models import User
from apps.core import health_page
from apps.core.health import Part, Word
from apps.proposals import services
from apps.proposals.models import PackageProposal
from tests.browser import PHONE, beside_a_browser, chromium, opened_by
from tests.factories import packages as made
from tests.factories.runs import finished_run
from tests.proposals.conftest import give_receipt

__all__ = ["beside_a_browser", "chromium"]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("beside_a_browser"),
]


@pytest.fixture
def phone(chromium: Browser, live_server: Any, settings: Any) -> Iterator[Page]:
    """The administrator's phone, signed in."""
    ines = User.objects.create_user("ines", is_staff=True, is_superuser=True)
    with opened_by(ines, chromium, live_server, settings, viewport=PHONE) as page:
        yield page


def test_on_a_phone_each_value_of_a_table_stands_beside_its_name(phone: Page) -> None:
    run = finished_run()
    phone.goto(reverse("admin:runs_run_change", args=[run.pk]))
    for title in ("Timeline", "How each call was decided"):
        table = phone.get_by_role("region", name=f"{title}, table")
        expect(table).to_be_visible()
        assert table.evaluate("one => one.scrollWidth <= one.clientWidth"), title
        outcome = table.locator("td[data-label=Outcome]").first
        expect(outcome).to_contain_text("Outcome unknown")
        assert outcome.evaluate("one => getComputedStyle(one, '::before').content") == '"Outcome"'


def sent_in(version: str, memory: int) -> PackageProposal:
    """A tested proposal of one tool that may use so much memory."""
    author, _ = User.objects.get_or_create(username="dev")
    tool = made.definition("notes.count", limits={"memMB": memory, "cpuMs": 500})
    sent = services.create_proposal(
        author=author,
        manifest=made.manifest("notes", version, tool),
        files=made.tree("notes", version),
        note="",
    )
    give_receipt(sent)
    return services.submit_proposal(proposal_id=sent.pk, author=author, note="")


def test_on_a_phone_a_reviewer_reads_what_is_proposed_and_what_it_was(phone: Page) -> None:
    ines = User.objects.get(username="ines")
    services.approve_proposal(proposal_id=sent_in("1.0.0", 64).pk, reviewer=ines)
    phone.goto(reverse("admin:proposals_packageproposal_change", args=[sent_in("1.1.0", 128).pk]))
    contract = phone.get_by_role("region", name="Contract of pkg_notes_count", exact=True)
    assert contract.evaluate("one => one.scrollWidth <= one.clientWidth")
    limits = contract.locator("tr", has_text="Limits")
    expect(limits.get_by_text("64 MB")).to_be_visible()
    expect(limits.get_by_text("128 MB")).to_be_visible()
    same = contract.locator("tr", has_text="Asks").locator("td")
    expect(same.first).to_be_hidden()
    expect(same.last).to_be_visible()


def test_on_a_phone_health_is_read_whole_and_probed_by_keyboard(
    phone: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    mend = "Allow user namespaces with `sysctl kernel.apparmor_restrict_unprivileged_userns=0`."
    parts = [Part("sandbox", Word.OFF, "No driver.", needed=False, mend=mend)]
    monkeypatch.setattr(health_page, "look_around", lambda **_: parts)
    phone.goto(reverse("admin_health"))
    for title in ("To mend", "Parts"):
        table = phone.get_by_role("region", name=f"{title}, table")
        assert table.evaluate("one => one.scrollWidth <= one.clientWidth"), title
    phone.locator("summary", has_text="Probe afresh").press("Enter")
    button = phone.get_by_role("button", name="Probe afresh")
    expect(button).to_be_in_viewport(ratio=1)
    phone.keyboard.press("Tab")
    expect(button).to_be_focused()
    phone.keyboard.press("Enter")
    expect(phone.get_by_text("just now, every part")).to_be_visible()


def test_a_box_that_finds_rows_carries_the_name_of_its_field(phone: Page) -> None:
    for page, names in (("connection", ("Owner",)), ("secretgrant", ("Package", "Secret"))):
        phone.goto(reverse(f"admin:broker_{page}_add"))
        for name in names:
            expect(phone.get_by_role("combobox", name=name)).to_be_visible()
