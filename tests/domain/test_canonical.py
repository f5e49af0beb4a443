import json
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.domain.canonical import (
    BadJson,
    NotCanonical,
    canonical_json,
    digest,
    digest_bytes,
    strict_loads,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5)
)


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
        ({"é": "ü", "z": [True, False, None]}, '{"z":[true,false,null],"é":"ü"}'),
        (2.0, "2"),
        (-0.0, "0"),
        (1e21, "1000000000000000000000"),
        (0.1, "0.1"),
        (1e-6, "0.000001"),
        (0.00001234, "0.00001234"),
        (1e-7, "1e-7"),
        (-1.5e-9, "-1.5e-9"),
        (5e-324, "5e-324"),
        ("a\n\x1f\u007f/\u2028", '"a\\n\\u001f\u007f/\u2028"'),
        ((1, "x"), '[1,"x"]'),
        (Colour.RED, '"red"'),
        # U+1F600 sorts before U+FF61 by UTF-16 code units, though not by code points.
        ({"\uff61": 1, "\U0001f600": 2}, '{"\U0001f600":2,"\uff61":1}'),
    ],
)
def test_one_value_has_one_text(value: Any, expected: str) -> None:
    assert canonical_json(value).decode() == expected


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        [float("-inf")],
        "\ud800",
        {"\udfff": 1},
        {1: 2},
        {None: 1},
        b"bytes",
        {1, 2},
        object(),
        pytest.param(10**5000, id="too many digits"),
    ],
)
def test_what_is_not_json_has_no_text(value: Any) -> None:
    with pytest.raises(NotCanonical):
        canonical_json(value)


def test_a_value_nested_too_deeply_is_refused_rather_than_recursed_into() -> None:
    value: Any = []
    for _ in range(5000):
        value = [value]
    with pytest.raises(NotCanonical, match="deeper"):
        canonical_json(value)


def test_a_digest_names_its_algorithm() -> None:
    assert digest({}) == digest_bytes(b"{}")
    assert digest({}).startswith("sha256:")
    assert len(digest({})) == 71


@given(values)
@settings(deadline=None)
def test_the_text_reads_back_as_the_same_value(value: Any) -> None:
    raw = canonical_json(value)
    assert json.loads(raw) == value
    assert canonical_json(json.loads(raw)) == raw


@given(st.dictionaries(text, scalars, max_size=6))
@settings(deadline=None)
def test_the_order_of_keys_does_not_count(value: dict[str, Any]) -> None:
    assert digest(value) == digest(dict(reversed(value.items())))


@given(values)
@settings(deadline=None)
def test_strict_reading_agrees_with_plain_reading(value: Any) -> None:
    raw = json.dumps(value)
    if not any(abs(number) >= 10**40 for number in _integers(value)):
        assert strict_loads(raw, max_bytes=100_000) == json.loads(raw)
        assert strict_loads(raw.encode(), max_bytes=100_000) == json.loads(raw)


def _integers(value: Any) -> list[int]:
    if isinstance(value, dict):
        return [number for inner in value.values() for number in _integers(inner)]
    if isinstance(value, list):
        return [number for inner in value for number in _integers(inner)]
    return [value] if isinstance(value, int) else []


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (b'{"a":1,"a":2}', "duplicate_key"),
        (b'{"x":{"a":1,"b":2,"a":1}}', "duplicate_key"),
        (b"NaN", "number"),
        (b"[-Infinity]", "number"),
        (b"1e999", "number"),
        (b"1" * 41, "number"),
        (b"-" + b"1" * 41, "number"),
        (b"{} {}", "syntax"),
        (b"{},", "syntax"),
        (b"", "syntax"),
        (b"{'a':1}", "syntax"),
        (b'"\x01"', "syntax"),
        (b'"unended', "syntax"),
        (b"\xef\xbb\xbf{}", "syntax"),
        (b'"\xff"', "encoding"),
        (b'"\xed\xa0\x80"', "encoding"),
        ('"\ud800"', "encoding"),
        (b'["\\ud800"]', "surrogate"),
        (b'{"a":{"\\udc00":1}}', "surrogate"),
        (b"[" * 65 + b"]" * 65, "depth"),
        (b"[" * 100_000, "depth"),
        (b'{"a":' * 70, "depth"),
        (b'"' + b"a" * 200_001 + b'"', "size"),
        ("é" * 110_000, "size"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_ambiguous_text_is_refused_by_rule(raw: bytes | str, rule: str) -> None:
    with pytest.raises(BadJson) as caught:
        strict_loads(raw, max_bytes=200_000)
    assert caught.value.rule == rule
    assert len(caught.value.message) < 300
    assert caught.value.message.isascii()


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"[" * 64 + b"]" * 64, None),
        (b'"[[[[{{{{\\"[["', '[[[[{{{{"[['),
        (b"1" * 40, int("1" * 40)),
        (b'"\\ud83d\\ude00"', "😀"),
        (b' {"a" : [1.5e3] } \n', {"a": [1500.0]}),
    ],
)
def test_plain_text_is_read(raw: bytes, value: Any) -> None:
    found = strict_loads(raw, max_bytes=1000)
    assert value is None or found == value


def test_a_lone_surrogate_is_found_where_it_stands() -> None:
    with pytest.raises(BadJson) as caught:
        strict_loads(b'{"a/b":[1,{"c":"\\ud800"}]}', max_bytes=1000)
    assert caught.value.path == "/a~1b/1/c"


@pytest.mark.parametrize("raw", ['{"a": ["x\\u0000"]}', '{"a": [{"\\u0000": 1}]}'])
def test_nul_is_refused_only_where_the_value_is_to_be_stored(raw: str) -> None:
    assert strict_loads(raw, max_bytes=1000)
    with pytest.raises(BadJson) as caught:
        strict_loads(raw, max_bytes=1000, nul=False)
    assert (caught.value.rule, caught.value.path) == ("nul", "/a/0")
    assert strict_loads('"\\\\u0000"', max_bytes=1000, nul=False) == "\\u0000"


@pytest.mark.parametrize(
    "hostile",
    [
        lambda n: '"' + '\\"' * n,
        lambda n: '"\\' * n,
        lambda n: '""' * n,
        lambda n: "[]" * n,
    ],
)
def test_the_depth_scan_takes_one_pass(hostile: Callable[[int], str]) -> None:
    # Quadratic work over half a megabyte would not come back within the suite's patience.
    with pytest.raises(BadJson):
        strict_loads(hostile(250_000), max_bytes=1_000_000)
