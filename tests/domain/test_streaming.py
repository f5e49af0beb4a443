import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.domain.streaming import MAX_SIDE_STRING, ArgumentStream

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(text | st.sampled_from(["body", "title"]), values, max_size=5)


def pieces(raw: str, cuts: list[int]) -> list[str]:
    ends = sorted({cut % (len(raw) + 1) for cut in cuts} | {0, len(raw)})
    return [raw[start:end] for start, end in itertools.pairwise(ends)]


@given(
    objects,
    text,
    st.lists(st.integers(0, 10_000), max_size=30),
    st.booleans(),
    st.sampled_from([None, 1]),
)
@settings(deadline=None, max_examples=300)
def test_any_chunking_reads_what_a_parser_reads(
    value: dict[str, Any], body: str, cuts: list[int], ascii_only: bool, indent: int | None
) -> None:
    value["body"] = body
    raw = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    stream = ArgumentStream("body")
    gathered = ""
    for piece in pieces(raw, cuts):
        gathered += stream.feed(piece)
        assert body.startswith(stream.text)
        assert gathered == stream.text
        assert stream.length == len(stream.text)
    assert not stream.broken
    assert stream.finished
    assert stream.text == body
    assert stream.strings == {
        key: item for key, item in value.items() if isinstance(item, str) and key != "body"
    }


@given(objects)
@settings(deadline=None)
def test_character_by_character_is_the_same(value: dict[str, Any]) -> None:
    stream = ArgumentStream("title")
    for character in json.dumps(value):
        stream.feed(character)
    assert stream.finished
    assert not stream.broken
    title = value.get("title")
    assert stream.text == (title if isinstance(title, str) else "")


@given(st.lists(st.text(max_size=20), max_size=20))
@settings(deadline=None)
def test_nothing_that_arrives_raises(deltas: list[str]) -> None:
    stream = ArgumentStream("a")
    for delta in ['{"a":"', *deltas]:
        stream.feed(delta)
    assert "\ud800" not in stream.text


@given(st.text('{}[]":,\\ud8cDE0123456789abcnulltruefas \n-+.eE', max_size=60))
@settings(deadline=None, max_examples=300)
def test_what_it_calls_whole_and_flat_is_json(raw: str) -> None:
    stream = ArgumentStream("a")
    stream.feed(raw)
    flat = not any(bracket in raw[1:] for bracket in "{[")
    if stream.finished and not stream.broken and flat:
        assert isinstance(json.loads(raw), dict)


@pytest.mark.parametrize(
    ("deltas", "shown"),
    [
        (['{"a":"x\\', "n", 'y"}'], "x\ny"),
        (['{"a":"\\u', "00", "e9", '"}'], "é"),
        (['{"a":"\\ud83d', '\\ude00"}'], "😀"),
        (['{"a":"\\ud83d\\', "u", 'de00!"}'], "😀!"),
        (['{"a":"\ud83d', '\ude00"}'], "😀"),
        (['{"\\u0061":"key by escape"}'], "key by escape"),
        (['{"b":{"a":"inner"},"a":"outer"}'], "outer"),
        (['{"b":["}","\\"]"],"a":"x"}'], "x"),
        (['{"a":null,"b":1}'], ""),
        (["", '{"a":"x"}', "\n"], "x"),
    ],
)
def test_what_is_cut_apart_is_joined(deltas: list[str], shown: str) -> None:
    stream = ArgumentStream("a")
    for delta in deltas:
        stream.feed(delta)
    assert stream.text == shown
    assert stream.finished
    assert not stream.broken


def test_half_a_character_is_never_shown() -> None:
    stream = ArgumentStream("a")
    assert stream.feed('{"a":"x\\ud83d') == "x"
    assert stream.feed("\\ude0") == ""
    assert stream.feed("0") == "😀"


@pytest.mark.parametrize(
    "raw",
    [
        "[1]",
        '{"a" 1}',
        '{"a":"x","a":"y"}',
        '{"a":"x",}',
        '{"a":"\\q"}',
        '{"a":"\\u12g4"}',
        '{"a":"\n"}',
        '{"a":"\\ud800"}',
        '{"a":"\\ud800x"}',
        '{"a":"\\udc00"}',
        '{"a":"\ud800x"}',
        '{"a":tru}',
        '{"a":01}',
        '{"a":"x"} {',
        '{"a":"x"}}',
        "{,}",
        '{"a":}',
    ],
)
def test_what_cannot_become_an_object_is_marked_broken(raw: str) -> None:
    stream = ArgumentStream("a")
    stream.feed(raw)
    assert stream.broken
    before = stream.text
    assert stream.feed('"more"') == ""
    assert stream.text == before


def test_a_second_value_under_one_key_shows_nothing_more() -> None:
    stream = ArgumentStream("a")
    assert stream.feed('{"a":"x","a":"y"}') == "x"
    assert stream.broken


def test_without_a_previewed_argument_nothing_is_shown() -> None:
    stream = ArgumentStream(None)
    assert stream.feed('{"a":"x"}') == ""
    assert stream.strings == {"a": "x"}


def test_other_strings_are_kept_within_bounds() -> None:
    stream = ArgumentStream("a")
    stream.feed(json.dumps({"long": "x" * (MAX_SIDE_STRING + 1), "title": "t", "a": "x" * 9000}))
    assert stream.strings == {"title": "t"}
    assert stream.length == 9000
