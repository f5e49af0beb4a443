"""What nobody waits for is done at once, or where an answer is due, after it."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from apps.core.afterwards import afterwards, held, work_off


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


def test_every_piece_is_done_whatever_became_of_the_others_and_each_failure_is_logged() -> None:
    done: list[str] = []

    def breaks() -> None:
        raise ConnectionError("no broker")

    with held() as kept:
        afterwards(breaks)
        afterwards(lambda: done.append("second"))
        afterwards(breaks)
        afterwards(lambda: done.append("last"))
    with capture_logs() as said:
        work_off(kept)
    assert done == ["second", "last"]
    assert [one["event"] for one in said] == ["afterwards_broke", "afterwards_broke"]
