"""What is a preview, and what does someone who has seen this much of it still need?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from apps.rooms.previews import digest_of
from apps.rooms.writing import UNSEEN, Seen, Writing


def opened(text: str = "", **meta: Any) -> Writing:
    return Writing({"stream": "s", "of": "say", "run": "r", "text": text, "meta": meta})


def delta(base: int, text: str, whole: str, **more: Any) -> dict[str, Any]:
    return {
        "base": base,
        "length": base + len(text),
        "delta": text,
        "digest": digest_of(whole),
        **more,
    }


def test_deltas_add_up() -> None:
    writing = opened()
    assert writing.advance(delta(0, "añ", "añ"))
    assert writing.advance(delta(2, "🎉", "añ🎉", meta={"title": "T"}))
    whole = writing.whole()
    assert (whole["text"], whole["length"], whole["meta"]) == ("añ🎉", 3, {"title": "T"})
    assert whole["digest"] == digest_of("añ🎉")


@pytest.mark.parametrize(
    "frame",
    [
        delta(3, "x", "abcx"),
        delta(2, "x", "something else"),
        {**delta(2, "x", "abx"), "length": 9},
        {**delta(2, "x", "abx"), "base": "2"},
        {**delta(2, "x", "abx"), "delta": None},
        {},
    ],
)
def test_a_delta_that_does_not_fit_changes_nothing(frame: dict[str, Any]) -> None:
    writing = opened("ab")
    assert not writing.advance(frame)
    assert writing.whole()["text"] == "ab"
    assert writing.advance(delta(2, "c", "abc"))


def test_a_delta_that_is_known_already_is_taken_once() -> None:
    writing = opened("abcd")
    assert writing.advance(delta(0, "ab", "ab"))
    assert writing.advance(delta(2, "cdef", "abcdef"))
    assert writing.whole()["text"] == "abcdef"


def test_everyone_gets_what_they_lack_in_one_message() -> None:
    writing = opened("ab", title="A")
    joined = writing.now
    for place, letter in enumerate("cdef", start=2):
        text = "abcdef"[: place + 1]
        assert writing.advance(delta(place, letter, text))
    message = json.loads(writing.since(joined) or "")
    assert (message["base"], message["delta"], message["length"]) == (2, "cdef", 6)
    assert "meta" not in message
    assert writing.since(writing.now) is None
    assert json.loads(writing.since(UNSEEN) or "")["type"] == "stream.text"
    # Someone who has more than there is has something else.
    assert json.loads(writing.since(Seen(9, 1)) or "")["type"] == "stream.text"


def test_an_empty_preview_is_opened_and_its_meta_follows() -> None:
    writing = opened()
    assert json.loads(writing.since(UNSEEN) or "")["type"] == "stream.open"
    seen = writing.now
    assert writing.advance(delta(0, "", "", meta={"title": "Later"}))
    message = json.loads(writing.since(seen) or "")
    assert (message["delta"], message["meta"]) == ("", {"title": "Later"})


def test_a_message_is_made_once_for_all_who_need_the_same() -> None:
    writing = opened("ab")
    seen = writing.now
    assert writing.advance(delta(2, "c", "abc"))
    assert writing.since(seen) is writing.since(seen)


def test_a_text_that_starts_anew_is_told_from_one_that_grew() -> None:
    writing = opened("abc")
    assert writing.replace({"text": "abcd"})
    assert not writing.replace({"text": "xyz and more"})
