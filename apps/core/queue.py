"""How does work get done? The row is the queue; a Celery message is only the bell.

Work is a row committed with the change that caused it. `ring` says "look now" after commit; a lost
bell costs time, never work, because the sweep rings again for every row that its app calls ready.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import structlog
from celery import current_app
from django.db import transaction
from kombu import Exchange
from kombu import Queue as BrokerQueue
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

log = structlog.get_logger(__name__)

SWEEP_LIMIT = 200
STALE_SECONDS = 30
"""A bell that the sweep rang is not worth hearing later: while its row is ready, it rings again."""


@dataclass(frozen=True, slots=True)
class Queue:
    """One kind of work row: which rows are ready, and whom to tell."""

    name: str
    task: str
    argument: str
    ready: Callable[[int], Iterable[Any]]


_queues: dict[str, Queue] = {}


def register_queue(
    *, name: str, task: str, argument: str, ready: Callable[[int], Iterable[Any]]
) -> None:
    """Declare a kind of work: `ready(limit)` yields ids that `task(argument=id)` should look at."""
    if name in _queues:
        raise ValueError(f"A queue named {name!r} is already registered.")
    _queues[name] = Queue(name, task, argument, ready)


def queues() -> list[Queue]:
    """Return every declared kind of work."""
    return list(_queues.values())


def ring(task: str, **kwargs: Any) -> None:
    """Ring a bell by registered task name, once the current transaction has committed."""
    _require_task(task)
    transaction.on_commit(lambda: _send(task, kwargs))


def ring_at(node: str, task: str, **kwargs: Any) -> None:
    """Ring a bell that only the workers of one node hear, once the transaction has committed."""
    _require_task(task)
    queue = node_queue(node)
    transaction.on_commit(lambda: _send(task, kwargs, expires=STALE_SECONDS, queue=queue))


def node_queue(node: str) -> BrokerQueue:
    """Return the queue whose messages only the workers of one node receive."""
    name = f"calls.{node}"
    return BrokerQueue(name, Exchange(name, type="direct"), routing_key=name)


def sweep() -> dict[str, int]:
    """Ring again for every ready row; return how many of each kind."""
    counts: dict[str, int] = {}
    for queue in _queues.values():
        ids = list(queue.ready(SWEEP_LIMIT))
        for ident in ids:
            # Without an end they would pile up behind busy workers, some for every row each time.
            _send(queue.task, {queue.argument: str(ident)}, expires=STALE_SECONDS)
        if ids:
            counts[queue.name] = len(ids)
    return counts


_importing = threading.Lock()


def _require_task(task: str) -> None:
    if task not in current_app.tasks:
        # A web process has not imported the task modules yet. Celery imports them for whoever comes
        # first, and tells the next one at once that they are there.
        with _importing:
            current_app.loader.import_default_modules()
    if task not in current_app.tasks:
        raise LookupError(f"No task is registered as {task!r}.")


def _send(
    task: str,
    kwargs: dict[str, Any],
    *,
    expires: float | None = None,
    queue: BrokerQueue | None = None,
) -> None:
    where: dict[str, Any] = {} if queue is None else {"queue": queue}
    try:
        current_app.send_task(task, kwargs=kwargs, retry=False, expires=expires, **where)
    except (OperationalError, RedisError, OSError) as gone:
        # The row is committed; the sweep rings again when the broker is back.
        log.warning("bell_not_sent", task=task, error=type(gone).__name__)
