"""A real Chromium to test with: where it is, and what is done where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE = 30_000
"""Milliseconds to wait for anything on a page."""


def find_chromium() -> str | None:
    """Return the path of a Chromium, or None."""
    named = os.environ.get("KAIZEN_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start a browser for one module; its own event loop must not outlive it."""
    path = find_chromium()
    if path is None:
        missing = "There is no Chromium here: `apt install chromium`, or set KAIZEN_CHROMIUM."
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield browser
        browser.close()


def watched(page: Page) -> list[str]:
    """Return a list that fills with whatever goes wrong on the page."""
    wrong: list[str] = []
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console",
        lambda said: (
            wrong.append(said.text)
            if said.type == "error" and "Content Security Policy" in said.text
            else None
        ),
    )
    return wrong
