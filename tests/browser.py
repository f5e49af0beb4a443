"""A real Chromium to test with: where it is, and what is done where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, sync_playwright

from apps.accounts.models import User

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


@pytest.fixture(scope="module")
def beside_a_browser() -> Iterator[None]:
    """Let this thread use the database: the loop in it is only the browser's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        yield


@contextmanager
def opened_by(
    user: User, chromium: Browser, live_server: Any, settings: Any, **options: Any
) -> Iterator[Page]:
    """Open a page in the browser of somebody who has signed in; nothing may go wrong on it."""
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = False
    client = Client()
    client.force_login(user)
    name = settings.SESSION_COOKIE_NAME
    value = client.cookies[name].value
    context = chromium.new_context(base_url=live_server.url, **options)
    context.add_cookies([{"name": name, "value": value, "url": live_server.url}])
    page = context.new_page()
    wrong = watched(page)
    yield page
    assert wrong == []
    context.close()


PHONE: Final = {"width": 390, "height": 844}


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
