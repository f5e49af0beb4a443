"""What nobody waits for is done at once, or where an answer is due, after it."""

from __future__ import annotations

import pytest

from apps.core.afterwards import afterwards, held


def test_where_no_answer_is_due_it_is_done_at_once() -> None:
    done: list[str] = []
    afterwards(lambda: done.append("bell"))
    assert done == ["bell"]


def test_where_an_answer_is_due_it_is_kept_in_order_for_whoever_answers() -> None:
    done: list[str] = []
    with held() as kept:
        afterwards(lambda: done.append("first"))
        afterwards(lambda: done.append("second"))
        assert done == []
    for work in kept:
        work()
    assert done == ["first", "second"]
    afterwards(lambda: done.append("at once again"))
    assert done[-1] == "at once again"


def test_what_fails_keeps_nothing_back_for_others() -> None:
    done: list[str] = []
    with pytest.raises(ValueError, match="broken"), held():
        raise ValueError("broken")
    afterwards(lambda: done.append("bell"))
    assert done == ["bell"]
