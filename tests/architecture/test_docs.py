"""The documentation leads somewhere: every link between its pages, and every path that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings

from apps.proposals.models import ProposalTest

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


def test_the_shell_of_a_draft_waits_for_its_test_before_it_submits() -> None:
    page = (ROOT / "docs" / "packages.md").read_text()
    (shell,) = re.findall(r"```sh\n(URL=.*?)```", page, re.DOTALL)
    started, waited, sent = (shell.index(word) for word in ("/test ", "until ", "/submit "))
    assert started < waited < sent
    ends = re.search(r"IN\((.*?)\)", shell)
    assert ends is not None
    over = {*ProposalTest.State} - {ProposalTest.State.QUEUED, ProposalTest.State.RUNNING}
    assert {one.strip(' "') for one in ends[1].split(",")} == over
