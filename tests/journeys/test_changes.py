"""A member asks for a change from the artifact's own pane, by keyboard and on a phone."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser import PATIENCE
from tests.journeys.test_first_light import Furnished, ask, enter, furnished, visit

__all__ = ["furnished", "visit"]

pytestmark = [pytest.mark.browser, pytest.mark.workers]

expect.set_options(timeout=PATIENCE)


def change(page: Page, body: str, version: int) -> str:
    """What makes the rehearsal model change the artifact that the page shows."""
    address = page.locator("[data-a-download]").get_attribute("href") or ""
    wish = {"artifact_id": address.split("/")[2], "expected_version": version, "body": body}
    return f"Like this:\n/call update_artifact {json.dumps(wish)}"


def test_a_change_is_asked_for_where_the_artifact_is_read(
    furnished: Furnished, visit: Callable[..., Page]
) -> None:
    mara, tomas = visit("mara"), visit("tomas")
    enter(mara, furnished)
    enter(tomas, furnished)
    title = "Plan of changes"
    ask(mara, furnished, title, count=False)
    expect(mara.locator("[data-a-strip]")).to_contain_text("Saved as version 1.")
    # Only whose text it is may have it changed.
    expect(tomas.locator("[data-a-info]")).to_contain_text("v1")
    expect(tomas.get_by_role("button", name="Ask for a change")).to_be_hidden()

    # By keyboard alone: the pane's button, the words, and the keys that send them.
    mara.get_by_role("button", name="Ask for a change").focus()
    mara.keyboard.press("Enter")
    dialog = mara.get_by_role("dialog", name="Ask for a change")
    field = dialog.get_by_label("What should change?")
    expect(field).to_be_focused()
    expect(dialog).to_contain_text(title)
    expect(dialog.get_by_label("Agent")).to_have_text("Clerk")
    wish = change(mara, "Now it is short.", 1)
    field.fill(wish)
    mara.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    # What was typed is kept for the same artifact.
    mara.keyboard.press("Enter")
    expect(field).to_have_value(wish)
    expect(dialog.get_by_role("button", name="Ask", exact=True)).to_be_enabled()
    field.press("Control+Enter")
    expect(dialog).to_be_hidden()
    expect(mara.locator("[data-a-strip]")).to_contain_text("Saved as version 2.")
    inside = mara.frame_locator("[data-a-paper] iframe[title$='version 2']")
    expect(inside.get_by_text("Now it is short.")).to_be_visible()

    # Everyone reads what the wish was about.
    asked = tomas.locator(".msg", has_text="Like this:")
    asked.get_by_role("button", name=f"Asks for a change of {title}").click()
    expect(tomas.locator("[data-a-info]")).to_contain_text("v2")


def test_on_a_phone_in_the_dark_nothing_is_out_of_reach(
    furnished: Furnished, visit: Callable[..., Page]
) -> None:
    mara = visit("mara", 390, 844)
    mara.emulate_media(color_scheme="dark")
    enter(mara, furnished)
    ask(mara, furnished, "A plan for the way", count=False)
    expect(mara.locator("[data-mini]")).to_contain_text("A plan for the way · version 1")
    mara.locator("[data-mini]").click()
    button = mara.get_by_role("button", name="Ask for a change")
    expect(button).to_be_visible()
    button.click()
    dialog = mara.get_by_role("dialog", name="Ask for a change")
    expect(dialog.get_by_role("button", name="Ask", exact=True)).to_be_enabled()
    box = dialog.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert mara.evaluate("document.documentElement.scrollWidth") <= 390
    ground, ink = (
        dialog.evaluate(f"(one) => getComputedStyle(one).{name}")
        for name in ("backgroundColor", "color")
    )
    assert sum(map(int, ground[4:-1].split(","))) < sum(map(int, ink[4:-1].split(",")))
    dialog.get_by_label("What should change?").fill("Say it in one sentence.")
    dialog.get_by_role("button", name="Ask", exact=True).click()
    expect(dialog).to_be_hidden()
    mara.get_by_role("link", name="Back to the conversation").click()
    expect(mara.locator(".msg", has_text="Say it in one sentence.").last).to_be_visible()


def test_a_room_without_such_an_agent_says_so(
    furnished: Furnished, visit: Callable[..., Page]
) -> None:
    mara = visit("mara")
    enter(mara, furnished)
    ask(mara, furnished, "Kept as it is", count=False)
    expect(mara.locator("[data-a-strip]")).to_contain_text("Saved as version 1.")
    room = mara.url.rstrip("/").rpartition("/")[2]
    narrowed = """async ({ room, tools }) => {
        const { api } = await import("/static/js/api.js");
        const seats = await api("GET", `rooms/${room}/seats`);
        const path = `rooms/${room}/seats/${seats.results[0].slug}/tools`;
        return tools ? api("PUT", path, { tools }) : api("DELETE", path);
    }"""
    mara.evaluate(narrowed, {"room": room, "tools": ["read_artifact"]})
    mara.get_by_role("button", name="Ask for a change").click()
    dialog = mara.get_by_role("dialog", name="Ask for a change")
    expect(dialog).to_contain_text("No agent in this room may change artifacts for you.")
    expect(dialog.get_by_role("button", name="Ask", exact=True)).to_be_disabled()
    mara.evaluate(narrowed, {"room": room, "tools": None})
