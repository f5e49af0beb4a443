"""What may happen once the answer has gone? Bells and the like, which nobody waits for.

Inside `held()` such work is kept until the caller has answered; elsewhere it is done at once. It is
for what may be lost: a process that dies in between does none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import structlog

log = structlog.get_logger(__name__)

_kept: ContextVar[list[Callable[[], None]] | None] = ContextVar("kept_for_afterwards", default=None)


def afterwards(work: Callable[[], None]) -> None:
    """Do something nobody waits for: now, or where an answer is due, after it."""
    kept = _kept.get()
    if kept is None:
        work()
    else:
        kept.append(work)


@contextmanager
def held() -> Iterator[list[Callable[[], None]]]:
    """Keep what may happen afterwards in a list, which whoever opened this block works off."""
    kept: list[Callable[[], None]] = []
    token = _kept.set(kept)
    try:
        yield kept
    finally:
        _kept.reset(token)


def work_off(kept: Iterable[Callable[[], None]]) -> None:
    """Do what was kept, each piece whatever became of the others; what breaks is logged."""
    for work in kept:
        try:
            work()
        except Exception:
            log.error("afterwards_broke", exc_info=True)
