"""Our JavaScript modules in a real browser: any exported function, called with plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from tests.browser import watched

STATIC = Path(__file__).parents[2] / "static"
# Never asked: every request is answered here. Loopback, because digests need a secure origin.
ORIGIN = "http://127.0.0.1:9"
TYPES = {".js": "text/javascript", ".css": "text/css"}

Run = Callable[..., Any]


def serve(route: Route) -> None:
    """Hand out our own files, and an empty page for everything else."""
    path = STATIC / route.request.url.removeprefix(f"{ORIGIN}/static/").split("?")[0]
    if route.request.url.startswith(f"{ORIGIN}/static/") and path.is_file():
        kind = TYPES.get(path.suffix, "application/octet-stream")
        route.fulfill(body=path.read_bytes(), content_type=kind)
    else:
        route.fulfill(body="<!doctype html><title>empty</title>", content_type="text/html")


@pytest.fixture(scope="module")
def blank_page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context()
    page = context.new_page()
    wrong = watched(page)
    page.route("**/*", serve)
    page.goto(f"{ORIGIN}/")
    yield page
    assert wrong == []
    context.close()


@pytest.fixture
def run(blank_page: Page) -> Run:
    """Call an exported function of a module."""

    def call(module: str, body: str, **values: Any) -> Any:
        source = (
            f"async (values) => {{ const module = await import('/static/js/{module}');"
            f" const {{ {', '.join(values) or 'none'} }} = values; {body} }}"
        )
        return blank_page.evaluate(source, values)

    return call
