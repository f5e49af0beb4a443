"""Which passages answer a question?"""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import override_settings

from apps.domain import discovery
from apps.domain.discovery import MAX_EXCERPT, Index, anchor_of, split_page
from apps.library.selectors import search_about

PAGE = """# Rooms

People and agents meet in rooms.

## Inviting someone

Anyone who takes part may invite others.

```sh
# not a heading
```

## Closing a `room`

Only its owner closes a room. A closed room stays readable.

## Closing a room

Twice.
"""


def test_a_page_is_cut_at_its_headings_and_not_inside_code() -> None:
    found = [(one.title, one.heading, one.anchor) for one in split_page("rooms", PAGE)]
    assert found == [
        ("Rooms", "Rooms", ""),
        ("Rooms", "Inviting someone", "inviting-someone"),
        ("Rooms", "Closing a room", "closing-a-room"),
        ("Rooms", "Closing a room", "closing-a-room-1"),
    ]


def test_a_page_without_headings_has_its_name_for_a_title() -> None:
    (only,) = split_page("plain", "Just words.")
    assert (only.title, only.heading, only.text) == ("plain", "plain", "Just words.")


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [("Two words", "two-words"), ("What's `new`?", "whats-new"), ("Über uns", "über-uns")],
)
def test_an_anchor_is_what_a_rendered_page_uses(heading: str, anchor: str) -> None:
    assert anchor_of(heading) == anchor


def test_the_passage_that_speaks_of_it_comes_first() -> None:
    index = Index(split_page("rooms", PAGE))
    hits = index.search("How do I invite somebody?")
    assert hits[0].passage.anchor == "inviting-someone"
    assert index.search("closed rooms")[0].passage.anchor.startswith("closing-a-room")


def test_word_endings_do_not_matter() -> None:
    assert discovery.words_of("Tests tested testing") == ["test", "test", "test"]
    assert discovery.words_of("policies classes class") == ["policy", "class", "class"]
    assert len(set(discovery.words_of("close closes closed closing"))) == 1


def test_no_matching_word_means_no_answer() -> None:
    index = Index(split_page("rooms", PAGE))
    assert index.search("zebra") == []
    assert index.search("the of and") == []
    assert index.search("") == []
    assert Index([]).search("room") == []


def test_answers_are_bounded_whatever_the_pages_are() -> None:
    pages = [
        passage
        for number in range(30)
        for passage in split_page(f"page{number}", "# T\n\n" + "room " * 20_000)
    ]
    hits = Index(pages).search("room", limit=500)
    assert len(hits) == discovery.MAX_RESULTS
    assert all(len(hit.excerpt) <= MAX_EXCERPT for hit in hits)


def test_few_answers_are_of_one_page() -> None:
    many = "\n\n".join(f"## Room {n}\n\nroom" for n in range(10))
    hits = Index([*split_page("a", many), *split_page("b", "## B\n\nroom")]).search("room")
    assert sorted(hit.passage.page for hit in hits) == ["a", "a", "b"]


def test_an_excerpt_starts_at_the_sentence_that_answers() -> None:
    text = "Filler goes here. " * 60 + "The kill switch stops every call. More follows."
    (hit,) = Index(split_page("p", f"# P\n\n{text}")).search("kill switch")
    assert hit.excerpt.startswith("… The kill switch stops every call.")


def test_the_products_pages_answer_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    (tmp_path / "docs" / "deep" / "rooms.md").write_text(PAGE, encoding="utf-8")
    (tmp_path / "secret.md").write_text("# Invite\n\ninvite", encoding="utf-8")
    with override_settings(BASE_DIR=tmp_path):
        found = search_about("invite")
    assert [(one.path, one.heading) for one in found] == [
        ("/docs/deep/rooms#inviting-someone", "Inviting someone")
    ]
