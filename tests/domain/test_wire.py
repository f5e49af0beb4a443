"""Frames arrive whole or not at all, and JSON from strangers is read only within bounds."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.domain.wire import BadFrame, BadJson, Message, MessageReader, encode, read_json

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**39), 10**39) | text
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(st.lists(st.tuples(text, st.dictionaries(text, values, max_size=4), st.binary()),
                max_size=4), st.integers(1, 50))  # fmt: skip
def test_messages_arrive_as_they_were_sent(
    parts: list[tuple[str, dict[str, Any], bytes]], piece: int
) -> None:
    sent = [
        Message(kind or "k", {k: v for k, v in fields.items() if k != "kind"}, body)
        for kind, fields, body in parts
    ]
    stream = b"".join(encode(one) for one in sent)
    reader = MessageReader(max_body=1 << 20)
    received = []
    for at in range(0, len(stream), piece):
        received += list(reader.feed(stream[at : at + piece]))
    assert received == sent
    assert reader.between_messages


@given(st.binary(max_size=200))
def test_no_bytes_surprise_the_reader(data: bytes) -> None:
    reader = MessageReader(max_body=100)
    try:
        list(reader.feed(data))
    except BadFrame:
        pass
    else:
        assert reader.between_messages is (data == b"")


def test_a_message_too_large_is_refused_before_it_arrives() -> None:
    frame = encode(Message("k", {}, b"x" * 101))
    with pytest.raises(BadFrame, match="101 bytes"):
        list(MessageReader(max_body=100).feed(frame[:12]))
    with pytest.raises(BadFrame, match="header"):
        list(MessageReader(max_body=100, max_header=5).feed(frame[:12]))
    with pytest.raises(BadFrame):
        encode(Message("k", {"x": "y" * (1 << 21)}))


@given(values)
def test_whatever_json_writes_we_read(value: Any) -> None:
    for ascii_only in (True, False):
        data = json.dumps(value, ensure_ascii=ascii_only).encode()
        assert read_json(data, max_bytes=1 << 20) == value


@given(st.binary(max_size=80))
def test_what_we_read_is_what_json_says(data: bytes) -> None:
    try:
        value = read_json(data, max_bytes=1 << 20)
    except BadJson:
        return
    assert json.loads(data) == value


@given(st.text(st.sampled_from('[]{}",:\\ua0d81 nut'), max_size=60))
def test_hostile_little_texts_never_break_the_reader(data: str) -> None:
    with contextlib.suppress(BadJson):
        read_json(data.encode(), max_bytes=1 << 20)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "value"),
        (b"[1,", "value"),
        (b"1 2", "Extra data"),
        (b"{}{}", "Extra data"),
        (b'{"a":1,"a":2}', "stands twice"),
        (b'{"b":{"a":1,"a":1}}', "stands twice"),
        (b"NaN", "NaN"),
        (b"[Infinity]", "Infinity"),
        (b"-Infinity", "Infinity"),
        (b"1e400", "range"),
        (b"-1e400", "range"),
        (b"9" * 41, "40 digits"),
        (b"-" + b"9" * 41, "40 digits"),
        (b"9" * 100_000, "40 digits"),
        (b"\xff", "UTF-8"),
        (b'"\xed\xa0\x80"', "UTF-8"),
        (b"\xef\xbb\xbf1", "byte order mark"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\uDFFF":1}', "surrogate"),
        (b'["\\u0000"]', "NUL"),
        (b"[" * 65 + b"]" * 65, "64 deep"),
        (b"[" * 200_000, "64 deep"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "64 deep"),
        (b'"\n"', "control character"),
        (b"[" + b"0," * 600_000 + b"0]", "values"),
    ],
)
def test_what_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(BadJson, match=words):
        read_json(data, max_bytes=16 << 20)


def test_size_comes_first() -> None:
    with pytest.raises(BadJson, match="at most 3"):
        read_json(b"1234", max_bytes=3)


def test_brackets_in_strings_are_no_nesting() -> None:
    data = json.dumps("[{" * 500 + '\\"[' * 10).encode()
    assert read_json(data, max_bytes=1 << 20) == json.loads(data)
    assert read_json(b"[" * 64 + b"]" * 64, max_bytes=1 << 20)
    assert read_json(b'"\\ud83d\\ude00"', max_bytes=100) == "😀"
    assert read_json(b"9" * 40, max_bytes=100) == int("9" * 40)


@pytest.mark.parametrize("unit", [b'"', b'\\"', b'"\\', b'"\\"', b'["', b'\\\\"'])
def test_no_text_makes_the_scan_slow(unit: bytes) -> None:
    # Quadratic work on two megabytes would not end within the patience of any test run.
    with pytest.raises(BadJson):
        read_json(unit * (2_000_000 // len(unit)), max_bytes=16 << 20)
