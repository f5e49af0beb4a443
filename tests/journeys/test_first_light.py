"""The main job in two browsers: ask, watch, approve, and find what was made."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from apps.web.demo import package
from apps.web.demo.client import Administrator, Member, wait_until
from tests.browser import PATIENCE, watched
from tests.stack import RunningStack

pytestmark = [pytest.mark.browser, pytest.mark.workers]

expect.set_options(timeout=PATIENCE)

SENTENCE = "Nothing is taken on trust."
# In one room the very same call asks once only.
ANOTHER = "And nothing is taken twice."
PARAGRAPHS = "\n\n".join(f"Paragraph {number} goes on for a while." for number in range(80))


class Furnished:
    """A room with two members and an agent that may call one package tool that asks."""

    def __init__(self, stack: RunningStack) -> None:
        self.url = stack.url
        self.passwords = {one["username"]: one["password"] for one in stack.sign_ins}
        suffix = secrets.token_hex(3)
        mara = Member(self.url, "mara", self.passwords["mara"])
        self.tool = self._admit(mara, suffix)
        slug = f"clerk-{suffix}"
        capabilities = ["artifacts.read", "artifacts.write", "packages.call"]
        mara.post("agents", {"slug": slug, "name": "Clerk", "ceiling": capabilities})
        mara.post(f"agents/{slug}/grants", {"ref": f"tally-{suffix}@1.0.0", "tool": self.tool})
        self.name = f"First light {suffix}"
        self.room = mara.post("rooms", {"name": self.name})["id"]
        mara.post(f"rooms/{self.room}/participants", {"username": "tomas"})
        mara.post(f"rooms/{self.room}/seats", {"agent": slug})
        mara.sign_out()

    def _admit(self, mara: Member, suffix: str) -> str:
        draft = {"manifest": package.manifest(suffix), "files": package.files(suffix)}
        proposal = mara.post("proposals", draft)
        path = f"proposals/{proposal['id']}"
        test = mara.post(f"{path}/test")
        wait_until(
            "The package's test",
            lambda: (
                mara.get(f"{path}/tests/{test['id']}")["state"] not in ("queued", "running") or None
            ),
        )
        mara.post(f"{path}/submit", {"note": "Counts words."})
        ines = Administrator(self.url, "ines", self.passwords["ines"])
        ines.submit(f"/admin/proposals/packageproposal/{proposal['id']}/approve/")
        admitted = mara.get(f"packages/tally-{suffix}")
        return str(admitted["active"]["tools"][0]["name"])


@pytest.fixture(scope="module")
def furnished(running_stack: RunningStack) -> Furnished:
    return Furnished(running_stack)


@pytest.fixture
def visit(chromium: Browser, furnished: Furnished) -> Iterator[Callable[..., Page]]:
    """Sign somebody in, in a browser of their own; nothing may go wrong on any page."""
    contexts = []
    wrong: list[list[str]] = []

    def open_page(username: str, width: int = 1280, height: int = 800) -> Page:
        context = chromium.new_context(viewport={"width": width, "height": height})
        contexts.append(context)
        page = context.new_page()
        wrong.append(watched(page))
        page.goto(f"{furnished.url}/rooms/")
        page.get_by_label("Username").fill(username)
        page.get_by_label("Password").fill(furnished.passwords[username])
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/rooms/")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == [[] for _ in wrong]


def enter(page: Page, furnished: Furnished) -> None:
    page.locator(".roomlist a", has_text=furnished.name).click()
    expect(page.get_by_role("heading", name=furnished.name)).to_be_visible()


def ask(
    page: Page, furnished: Furnished, title: str, *, count: bool = True, text: str = SENTENCE
) -> None:
    """Let the agent count, which asks first, and then write a long artifact."""
    body = f"# {title}\n\n```json\n{{{{result}}}}\n```\n\n{PARAGRAPHS}\n\nThe end of {title}."
    write: dict[str, Any] = {"title": title, "kind": "markdown", "body": body}
    lines = [f"/call create_artifact {json.dumps(write)}"]
    if count:
        lines.insert(0, f"/call {furnished.tool} {json.dumps({'text': text})}")
    page.get_by_label("Message", exact=True).fill("\n".join(lines))
    page.keyboard.press("Enter")


def test_first_light(furnished: Furnished, visit: Callable[..., Page]) -> None:
    mara, tomas = visit("mara"), visit("tomas", 390, 844)
    enter(mara, furnished)
    enter(tomas, furnished)
    ask(mara, furnished, "Word count")

    # The question: whole for the one who decides, and only a notice for the other.
    card = mara.locator(".ask")
    expect(card.get_by_text(f'"{SENTENCE}"')).to_be_visible()
    for question in ("Where to", "As whom", "Effect", "Undo"):
        expect(card.get_by_text(question, exact=True)).to_be_visible()
    expect(card.get_by_role("button", name="Approve")).not_to_be_focused()
    expect(tomas.locator(".ask")).to_contain_text("Waiting for Mara")
    expect(tomas.locator(".ask button")).to_have_count(0)
    expect(tomas.locator(".ask")).not_to_contain_text(SENTENCE)

    # Letters count only while the card has the focus.
    mara.get_by_label("Message", exact=True).press("a")
    expect(card).to_be_visible()
    mara.get_by_label("Message", exact=True).fill("a draft of mine")
    card.focus()
    mara.keyboard.press("a")

    # Both watch the artifact grow, and both see it saved.
    strip = mara.locator("[data-a-strip]")
    expect(strip).to_contain_text("Clerk is writing this. Not saved yet")
    expect(tomas.locator("[data-mini]")).to_contain_text("Word count · Clerk is writing")
    lengths = set()
    while strip.locator("button").is_visible() and len(lengths) < 3:
        lengths.add(mara.locator("[data-a-info]").inner_text())
    assert len(lengths) == 3
    expect(strip).to_contain_text("Saved as version 1. By Clerk for Mara")
    frame = mara.locator("[data-a-paper] iframe")
    expect(frame).to_have_attribute("sandbox", "allow-popups allow-popups-to-escape-sandbox")
    inside = mara.frame_locator("[data-a-paper] iframe")
    expect(inside.get_by_text("The end of Word count.")).to_be_attached()
    expect(inside.get_by_text('"words": 5')).to_be_attached()

    mara.mouse.move(5, 5)
    mara.get_by_label("Message", exact=True).focus()
    expect(mara.locator(".call .state.ok")).to_have_count(2)
    expect(card).to_have_count(0)
    expect(mara.locator("[data-working]")).to_be_hidden()

    # What was typed survives, and so does everything that was made.
    mara.reload()
    expect(mara.get_by_label("Message", exact=True)).to_have_value("a draft of mine")
    expect(mara.locator(".call .state.ok")).to_have_count(2)
    expect(inside.get_by_text("The end of Word count.")).to_be_attached()
    tomas.locator("[data-mini]").click()
    expect(tomas.locator("#artifact")).to_be_visible()
    expect(tomas.locator("[data-timeline]")).to_be_hidden()
    tomas.go_back()
    expect(tomas.locator("[data-timeline]")).to_be_visible()


def test_a_denial_in_the_inbox_reaches_the_room(
    furnished: Furnished, visit: Callable[..., Page]
) -> None:
    room, inbox = visit("mara"), visit("mara")
    enter(room, furnished)
    ask(room, furnished, "Never written", text=ANOTHER)
    expect(room.locator(".ask .btn.primary")).to_be_visible()
    inbox.goto(f"{furnished.url}/approvals/")
    inbox.keyboard.press("j")
    expect(inbox.locator(".req").get_by_text(f'"{ANOTHER}"')).to_be_visible()
    inbox.keyboard.press("d")
    inbox.keyboard.type("not today")
    inbox.keyboard.press("Enter")
    expect(inbox.locator(".it.past").first).to_contain_text("Denied by you: “not today”")
    expect(room.locator(".call", has_text="Denied by you")).to_be_visible()
    expect(inbox.locator("#waiting-side")).to_be_hidden()


def test_stop_leaves_nothing_behind(furnished: Furnished, visit: Callable[..., Page]) -> None:
    mara = visit("mara")
    enter(mara, furnished)
    ask(mara, furnished, "Half a page", count=False)
    expect(mara.locator("[data-a-strip]")).to_contain_text("is writing this")
    mara.keyboard.press("Escape")
    expect(mara.locator("[data-a-strip]")).to_contain_text("Not saved.")
    expect(mara.locator("[data-working]")).to_be_hidden()
    expect(mara.locator("[data-a-choices] .opt", has_text="Half a page")).to_have_count(0)


def test_a_room_is_opened_filled_and_closed(
    furnished: Furnished, visit: Callable[..., Page]
) -> None:
    mara = visit("mara", 320, 700)
    mara.get_by_role("link", name="New room").first.click()
    mara.get_by_label("Name").fill("A small room")
    mara.get_by_role("button", name="Open the room").click()
    expect(mara.get_by_role("heading", name="A small room")).to_be_visible()
    assert mara.evaluate("document.documentElement.scrollWidth") <= 320

    expect(mara.locator("[data-faces-count]")).to_contain_text("1 of 1")
    mara.locator("[data-faces-count]").click()
    people = mara.get_by_role("dialog")
    people.get_by_placeholder("Username of a member").fill("nobody-here")
    people.get_by_role("button", name="Invite").click()
    expect(people.get_by_role("alert")).to_contain_text("nobody-here")
    people.get_by_placeholder("Username of a member").fill("tomas")
    people.get_by_role("button", name="Invite").click()
    expect(people.locator("[data-roster]")).to_contain_text("Tomás Ferreira")
    people.get_by_role("button", name="Close").click()

    mara.get_by_label("Message", exact=True).fill("Hello <b>everybody</b>")
    mara.get_by_role("button", name="Send").click()
    expect(mara.locator(".say", has_text="Hello <b>everybody</b>")).to_be_visible()
    mara.get_by_label("More about this room").click()
    mara.get_by_role("button", name="Close the room").click()
    mara.get_by_role("dialog").get_by_role("button", name="Close the room").click()
    expect(mara.get_by_text("This room is closed.")).to_be_visible()
    expect(mara.get_by_label("Message", exact=True)).to_be_hidden()


def test_a_page_finds_its_way_back_after_the_server_was_away(
    running_stack: RunningStack, furnished: Furnished, visit: Callable[..., Page]
) -> None:
    mara = visit("mara")
    enter(mara, furnished)
    mara.get_by_label("Message", exact=True).fill("typed before")
    old = running_stack.kill("web")
    mara.get_by_label("Message", exact=True).press("Enter")
    running_stack.wait_for_new("web", old)
    # Depending on the moment the message went to the new server, or came back into the box.
    arrived = mara.locator(".msg:not(.sending) .say", has_text="typed before")
    failed = mara.locator(".notsent:not([hidden])")
    expect(arrived.or_(failed).first).to_be_visible()
    if failed.is_visible():
        expect(mara.get_by_label("Message", exact=True)).to_have_value("typed before")
        mara.get_by_label("Message", exact=True).press("Enter")
    expect(mara.locator("[data-banner]")).to_be_hidden()
    expect(mara.locator(".msg.sending")).to_have_count(0)
    expect(arrived).to_have_count(1)
    expect(mara.get_by_label("Message", exact=True)).to_have_value("")
