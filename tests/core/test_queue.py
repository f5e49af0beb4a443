"""A bell may be lost, doubled or late; the rows are the queue."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from celery import current_app

from apps.core import queue
from apps.core.queue import STALE_SECONDS, Queue, sweep

# A web process, fresh from its start, whose first requests all ring at the same moment.
FIRST_BELLS = """
import threading
import django; django.setup()
import kaizen.celery
from apps.core import queue
start, failed = threading.Barrier(16), []
def ring():
    start.wait()
    try:
        queue._require_task("boundary.execute_call")
    except LookupError as problem:
        failed.append(problem)
threads = [threading.Thread(target=ring) for _ in range(16)]
for one in threads: one.start()
for one in threads: one.join()
print(len(failed))
"""


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


def test_the_first_bells_of_a_process_may_all_ring_at_once() -> None:
    said = subprocess.run(
        [sys.executable, "-c", FIRST_BELLS], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    assert said.split()[-1] == "0"
