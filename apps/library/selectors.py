"""What do Kaizen's own pages say about a question?

The pages are read from the product's folder once per process; asking them takes no database, no
network and no identity.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from apps.domain.discovery import Index, Passage, split_page

MAX_PAGE_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A bounded piece of a page that answers, and where it stands."""

    title: str
    heading: str
    path: str
    text: str


def search_about(query: str) -> list[Excerpt]:
    """Return the few passages of the product's documentation that answer a question best."""
    return [
        Excerpt(
            title=hit.passage.title,
            heading=hit.passage.heading,
            path=_path(hit.passage),
            text=hit.excerpt,
        )
        for hit in _index(_docs_folder()).search(query)
    ]


def _docs_folder() -> Path:
    return Path(settings.BASE_DIR) / "docs"


@functools.lru_cache(maxsize=4)
def _index(folder: Path) -> Index:
    passages: list[Passage] = []
    for page in sorted(folder.rglob("*.md")):
        if page.stat().st_size <= MAX_PAGE_BYTES:
            name = page.relative_to(folder).with_suffix("").as_posix()
            passages.extend(split_page(name, page.read_text(encoding="utf-8")))
    return Index(passages)


def _path(passage: Passage) -> str:
    place = f"/docs/{passage.page}"
    return f"{place}#{passage.anchor}" if passage.anchor else place
