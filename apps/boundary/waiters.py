"""Who waits here for a call to settle? Everyone in one process, with one subscription for all.

A bell of the room says "look"; one reader then asks for all calls that are awaited, in one
statement. Once a second it looks anyway, because a bell may be lost. A waiter holds neither a
thread nor a connection.
"""

from __future__ import annotations

import asyncio
import uuid
import weakref
from collections import Counter
from collections.abc import Collection
from typing import Any

import structlog
from django import db

from apps.core.wanted import still_wanted
from apps.core.wire import Statement, exchange
from apps.domain.tooling import CallState
from apps.rooms.reads import read
from apps.rooms.subscription import Subscription

log = structlog.get_logger(__name__)

MAX_WAITING = 500
MAX_OF_ONE_MEMBER = 100
"""So many of those may be one member's, however many runs and tokens they hold."""
COMPARE_SECONDS = 1.0
GATHER_SECONDS = 0.01
"""So long the bells of a busy room are gathered for one look."""


class Waiters:
    """Everyone who waits in this process. Get it from `the_waiters()`."""

    def __init__(self) -> None:
        self.failed = False
        self._calls: dict[uuid.UUID, set[asyncio.Event]] = {}
        self._rooms: Counter[str] = Counter()
        self._members: Counter[int] = Counter()
        self._look = asyncio.Event()
        self._subscription = Subscription(
            name=uuid.uuid4().hex[:12],
            heard=lambda room_id, said: self._look.set(),
            returned=self._look.set,
        )
        self._tasks = {
            asyncio.get_running_loop().create_task(work, name=f"waiters-{name}")
            for name, work in (("subscription", self._subscription.run()), ("reader", self._read()))
        }
        for task in self._tasks:
            task.add_done_callback(self._done)

    @property
    def full(self) -> bool:
        """Whether there is no place left to wait."""
        return self._members.total() >= MAX_WAITING

    async def wait(
        self, *, room_id: str, call_id: uuid.UUID, seconds: float, member_id: int
    ) -> None:
        """Wait until the call has settled, or for as long as asked; not where there is no place."""
        if self.full or self._members[member_id] >= MAX_OF_ONE_MEMBER:
            return
        settled = asyncio.Event()
        self._calls.setdefault(call_id, set()).add(settled)
        self._rooms[room_id] += 1
        self._members[member_id] += 1
        try:
            async with asyncio.timeout(seconds):
                if self._rooms[room_id] == 1:
                    # Others count on it, also when this one hangs up meanwhile.
                    await asyncio.shield(self._subscription.add(room_id))
                # It may have settled before anybody listened.
                self._look.set()
                await settled.wait()
        except TimeoutError:
            return
        finally:
            self._calls[call_id].discard(settled)
            if not self._calls[call_id]:
                del self._calls[call_id]
            self._members[member_id] -= 1
            if not self._members[member_id]:
                del self._members[member_id]
            self._rooms[room_id] -= 1
            if not self._rooms[room_id]:
                del self._rooms[room_id]
                await self._subscription.remove(room_id)

    async def _read(self) -> None:
        while still_wanted():
            try:
                # Where nobody waits, nothing needs to be compared.
                async with asyncio.timeout(COMPARE_SECONDS if self._calls else None):
                    await self._look.wait()
            except TimeoutError:
                pass
            self._look.clear()
            try:
                settled = await read(_settled_among, list(self._calls))
            except db.Error as gone:
                log.warning("calls_not_read", error=type(gone).__name__)
                await asyncio.sleep(COMPARE_SECONDS)
                continue
            for call_id in settled:
                for waiter in self._calls.get(call_id, ()):
                    waiter.set()
            await asyncio.sleep(GATHER_SECONDS)

    def _done(self, task: asyncio.Task[None]) -> None:
        """Notice a task that broke: who waits does so to the end, and the next begin afresh."""
        if task.cancelled() or task.exception() is None:
            return
        log.error("waiters_failed", task=task.get_name(), exc_info=task.exception())
        self.failed = True
        for other in self._tasks:
            other.cancel()


# Asked at every bell of a room in which somebody waits.
_SETTLED = b"SELECT id FROM runs_call WHERE id = ANY($1) AND state = $2"


def _settled_among(call_ids: Collection[uuid.UUID]) -> list[Any]:
    if not call_ids:
        return []
    asked = Statement(_SETTLED, [list(call_ids), CallState.SETTLED.value])
    return [ident for (ident,) in exchange([asked])[0]]


_of_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Waiters] = (
    weakref.WeakKeyDictionary()
)


def the_waiters() -> Waiters:
    """Return those of the running event loop, afresh if the last ones broke."""
    loop = asyncio.get_running_loop()
    waiters = _of_loop.get(loop)
    if waiters is None or waiters.failed:
        waiters = _of_loop[loop] = Waiters()
    return waiters
