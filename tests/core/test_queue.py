"""A bell may be lost, doubled or late; the rows are the queue."""

from __future__ import annotations

from typing import Any

import pytest
from celery import current_app

from apps.core import queue
from apps.core.queue import STALE_SECONDS, Queue, sweep


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any], Any]]:
    heard: list[tuple[str, dict[str, Any], Any]] = []

    def hear(task: str, *, kwargs: dict[str, Any], retry: bool, expires: Any) -> None:
        heard.append((task, kwargs, expires))

    monkeypatch.setattr(current_app, "send_task", hear)
    return heard


def test_the_sweep_rings_for_every_ready_row_and_its_bells_grow_stale(
    rung: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = Queue("letters", "letters.send", "letter_id", lambda limit: range(3)[:limit])
    monkeypatch.setattr(queue, "_queues", {"letters": letters})
    for _ in range(100):
        assert sweep() == {"letters": 3}
    # Behind a busy worker, no more than a few sweeps' bells are ever alive.
    assert {expires for _, _, expires in rung} == {STALE_SECONDS}
    assert rung[:3] == [("letters.send", {"letter_id": str(n)}, STALE_SECONDS) for n in range(3)]
