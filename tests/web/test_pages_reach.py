"""A page that a model wrote connects to nothing, not even for a moment, in a real browser."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, Route

from apps.web.rendering import Shown, show
from tests.web.modules import ORIGIN, Run

pytestmark = pytest.mark.browser

REACHES = [
    '<iframe src="{there}/f"></iframe>',
    '<IFRAME/src="{there}/f">',
    '<frameset><frame src="{there}/f"></frameset>',
    '<svg><foreignObject><iframe src="{there}/f"></iframe></foreignObject></svg>',
    '<iframe srcdoc="<iframe src={there}></iframe>"></iframe>',
    '<object data="{there}/o"><iframe src="{there}"></object>',
    '<link rel="preconnect" href="{there}/"><link rel="dns-prefetch" href="{there}/">',
]
WAIT = 700
"""Milliseconds within which a browser has long connected."""


@pytest.fixture
def there() -> Iterator[tuple[str, list[int]]]:
    """An address, and who connected to it."""
    came: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def wait() -> None:
            while True:
                try:
                    connection, (_, port) = listening.accept()
                except OSError:
                    return
                came.append(port)
                connection.close()

        threading.Thread(target=wait, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", came
        listening.shutdown(socket.SHUT_RDWR)


def answering(shown: Shown) -> Callable[[Route], None]:
    return lambda route: route.fulfill(
        body=shown.as_it_is or "",
        content_type="text/html",
        headers={"Content-Security-Policy": shown.policy},
    )


def test_a_saved_page_connects_to_nothing(blank_page: Page, there: tuple[str, list[int]]) -> None:
    address, came = there
    for written in REACHES:
        shown = show(kind="html", body=f"<h1>Words</h1>{written.format(there=address)}")

        blank_page.route(f"{ORIGIN}/shown", answering(shown))
        blank_page.goto(f"{ORIGIN}/shown")
        assert blank_page.locator("h1").text_content() == "Words"
        blank_page.wait_for_timeout(WAIT)
        assert came == [], written
    blank_page.goto(f"{ORIGIN}/")


def test_a_page_that_is_being_written_connects_to_nothing(
    blank_page: Page, run: Run, there: tuple[str, list[int]]
) -> None:
    address, came = there
    for kind in ("html", "svg"):
        for written in REACHES:
            run(
                "room/frame.js",
                "const paper = document.createElement('div'); document.body.append(paper);"
                "new module.Frame(paper).live({stream: text, meta: {kind}, text, closed: null});",
                kind=kind,
                text=f"<h1>Words</h1>{written.format(there=address)}",
            )
            blank_page.wait_for_timeout(WAIT)
            assert came == [], written
