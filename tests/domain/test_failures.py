"""A body that reports a failure is one, whatever its envelope says."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.domain.failures import reported_failure

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "body",
    [
        {"error": "no such city"},
        {"error": {"code": 3}},
        {"error": ["a"]},
        {"error": True},
        {"error": 7},
        {"status": "error"},
        {"status": "failed", "rows": []},
        {"state": "FAILURE"},
        {"outcome": " Failed "},
        {"success": False, "value": 3},
        {"ok": False},
        {"Error": "x"},
        {"isError": True},
        {"STATUS": "Error"},
    ],
)
def test_a_body_that_reports_a_failure_is_one(body: dict[str, Any]) -> None:
    assert reported_failure(body) == next(iter(body))
    assert reported_failure(json.dumps(body)) == next(iter(body))
    block = {"type": "text", "text": json.dumps(body)}
    assert reported_failure([block]) == next(iter(body))
    assert reported_failure({"content": [{"type": "text", "text": "hello"}, block]})


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"error": None},
        {"error": ""},
        {"error": "  "},
        {"error": {}},
        {"error": []},
        {"error": False},
        {"error": 0},
        {"errors": 3, "lines": 900},
        {"status": "ok"},
        {"status": 500},
        {"status": {"error": "deeper"}},
        {"state": "running"},
        {"outcome": "the payment failed twice, then went through"},
        {"success": True},
        {"success": None},
        {"ok": 0},
        {"isError": False},
        "failed",
        "error: nothing",
        "{not json",
        '["error"]',
        ["error"],
        None,
        False,
        0,
    ],
)
def test_a_body_that_reports_none_is_none(body: Any) -> None:
    assert reported_failure(body) is None


@given(anything)
def test_only_the_bodys_own_members_count(value: Any) -> None:
    """What lies deeper describes something else: another job that failed is a fine answer."""
    assert reported_failure({"jobs": [value], "job": value}) is None


@given(anything)
def test_it_never_fails_on_what_it_is_given(value: Any) -> None:
    reported_failure(value)
    reported_failure(json.dumps(value))


@given(st.sampled_from(["error", "failed", "failure", "fail", "errored"]), st.randoms())
def test_case_and_surrounding_space_do_not_hide_a_failure(word: str, dice: Any) -> None:
    varied = "".join(dice.choice((letter.upper(), letter)) for letter in word)
    assert reported_failure({"status": f" {varied}\n"}) == "status"


def test_text_that_is_too_deep_or_too_long_is_text() -> None:
    assert reported_failure('{"a":' * 5_000) is None
    assert reported_failure('{"ok": false, "pad": "' + "x" * 300_000 + '"}') is None
