"""The documentation leads somewhere: every link between its pages, and every path that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
NAMED = re.compile(r"`((?:apps|kaizen|tests|docs|benchmarks|templates|static)/[\w./-]+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_and_path_on_a_page_leads_to_something(page: Path) -> None:
    text = page.read_text()
    dead = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    gone = [path for path in NAMED.findall(text) if not (ROOT / path).exists()]
    assert dead + gone == []


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert {page for page in pages if f"({page})" not in index} == set()
