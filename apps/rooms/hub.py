"""How do facts reach every open socket of this web process? One hub, on its event loop.

Per watched room there is one subscription, one reader of new events and one copy of each preview,
whatever the number of viewers. A bell only says "look": events are read from the database in the
order of their positions, so none is lost or doubled. Once a second the hub compares every watched
room with the database anyway, because a bell may be lost; without Redis that is how it goes on.
"""

from __future__ import annotations

import asyncio
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import structlog
from django import db
from redis.exceptions import RedisError

from apps.core import metrics
from apps.core.wanted import still_wanted
from apps.rooms import presence
from apps.rooms.previews import EXPIRY, MAX_OPEN, frames_from, queue_reads, roster_key
from apps.rooms.reads import read
from apps.rooms.relay import PATIENCE
from apps.rooms.selectors import new_events, participants_among, room_marks
from apps.rooms.subscription import Subscription
from apps.rooms.viewers import NOT_HERE, RESTARTING, RESUME, TOO_MANY, CannotWatch, Viewer
from apps.rooms.watched import Watched

log = structlog.get_logger(__name__)

SOCKETS_PER_MEMBER = 20
SOCKETS_PER_PROCESS = 1000
BATCH = 100
COMPARE_SECONDS = 1.0
CHECK_SECONDS = 30.0
"""At least this often everybody is checked again, for what no roster revision says."""
STUCK_SECONDS = 30.0
_GRACE = 3.0
_RETRY = 1.0
_REBUILD_PAUSE = 0.25


class Hub:
    """Everything that one web process shows live. Get it from `the_hub()`."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex[:12]
        self.failed = False
        self._rooms: dict[str, Watched] = {}
        self._sockets: Counter[int] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._parting: asyncio.Task[None] | None = None
        self._subscription = Subscription(
            name=self.name, heard=self._heard, returned=self._returned
        )
        self._announce = self._subscription.client.register_script(presence.ANNOUNCE)
        self._spawn(self._subscription.run(), "hub-subscription")
        self._spawn(self._compare_for_ever(), "hub-compare")
        self._spawn(self._tend_for_ever(), "hub-tend")

    # --- sockets come and go

    def admit(self, user_id: int) -> None:
        """Count a socket in, or refuse one too many. `release` counts it out."""
        if self.failed:
            raise CannotWatch(RESTARTING)
        if (
            self._sockets[user_id] >= SOCKETS_PER_MEMBER
            or self._sockets.total() >= SOCKETS_PER_PROCESS
        ):
            raise CannotWatch(TOO_MANY)
        self._sockets[user_id] += 1
        self._measure()

    def release(self, user_id: int) -> None:
        """Count a socket out."""
        self._sockets[user_id] -= 1
        if self._sockets[user_id] <= 0:
            del self._sockets[user_id]
        self._measure()

    async def join(self, *, room_id: str, user_id: int) -> tuple[Watched, Viewer]:
        """Watch a room for a member whose right to it was just checked.

        From now on the viewer collects every event; it sends none before `begin`.
        """
        room = self._rooms.get(room_id)
        if room is None:
            room = self._rooms[room_id] = Watched(room_id)
            room.opening = self._spawn(self._open(room), "hub-open")
        viewer = Viewer(user_id=user_id, room=room)
        room.viewers.add(viewer)
        self._measure()
        try:
            if room.opening is not None:
                # Waiting so, one socket that gives up does not stop the opening for the others.
                await asyncio.wait({room.opening})
            if room.pump is None:
                raise CannotWatch(RESTARTING)
        except BaseException:
            room.viewers.discard(viewer)
            self._measure()
            raise
        return room, viewer

    def begin(self, *, room: Watched, viewer: Viewer, position: int, revision: int) -> None:
        """Let messages flow after a position, to a viewer checked at that revision."""
        viewer.begin(position=position, revision=revision)
        if revision < room.revision:
            room.look(unchecked=True)

    def leave(self, *, room: Watched, viewer: Viewer) -> None:
        """Forget a viewer. The room itself is let go after a moment of grace."""
        room.viewers.discard(viewer)
        self._measure()

    def _measure(self) -> None:
        metrics.board.start()
        metrics.SOCKETS.set(self._sockets.total())
        metrics.WATCHED.set(len(self._rooms))
        metrics.VIEWERS.set(sum(len(room.viewers) for room in self._rooms.values()))

    # --- rooms

    async def _open(self, room: Watched) -> None:
        try:
            await self._subscription.add(room.room_id)
            marks = await read(room_marks, [room.room_id])
            mark = marks.get(room.room_id)
            if mark is not None:
                room.position = mark.position
                room.revision = max(room.revision, mark.revision)
                # A slow store must not keep the room shut: late previews follow as frames.
                rebuilt = self._spawn(self._rebuild(room), "hub-rebuild")
                await asyncio.wait({rebuilt}, timeout=PATIENCE)
                room.pump = self._spawn(self._pump(room), "hub-room")
        except db.Error as gone:
            log.warning("room_not_watched", room=room.room_id, error=type(gone).__name__)
        finally:
            if room.pump is None:
                await self._forget(room)

    async def _forget(self, room: Watched) -> None:
        self._rooms.pop(room.room_id, None)
        self._measure()
        if room.pump is not None:
            room.pump.cancel()
        await self._subscription.remove(room.room_id)

    def _returned(self) -> None:
        """Redis is back: read again whatever may have been said meanwhile."""
        for room in self._rooms.values():
            room.announced_at = float("-inf")
            room.look(behind=True)
            self._spawn(self._rebuild(room), "hub-rebuild")

    def _heard(self, room_id: str, said: dict[str, Any]) -> None:
        room = self._rooms.get(room_id)
        if room is None:
            return
        revision, bell = said.get("revision"), said.get("bell")
        if isinstance(revision, int):
            room.learn_revision(revision)
        if isinstance(bell, int):
            if bell > room.position:
                room.look(behind=True)
        elif not room.take_frame(said):
            self._spawn(self._rebuild(room), "hub-rebuild")

    async def _rebuild(self, room: Watched) -> None:
        """Read every open preview of a room as the store has it now."""
        if room.rebuilding:
            room.rebuild_again = True
            return
        room.rebuilding = room.rebuild_again = True
        try:
            while room.rebuild_again and still_wanted():
                room.rebuild_again = False
                read_at = time.monotonic()
                try:
                    room.take_previews(await self._previews(room.room_id), read_at=read_at)
                except (RedisError, OSError) as gone:
                    log.warning("previews_not_read", room=room.room_id, error=type(gone).__name__)
                    # Once the store is back, everything is read anyway.
                    room.rebuild_again = self._subscription.up
                if room.rebuild_again:
                    await asyncio.sleep(_REBUILD_PAUSE)
        finally:
            room.rebuilding = False

    async def _previews(self, room_id: str) -> list[dict[str, Any]]:
        client = self._subscription.client
        members: Any = await client.smembers(roster_key(room_id))
        streams = sorted(member.decode() for member in members)[:MAX_OPEN]
        async with client.pipeline(transaction=True) as pipe:
            queue_reads(pipe, room_id, streams)
            return frames_from(streams, await pipe.execute())

    # --- one reader per room

    async def _pump(self, room: Watched) -> None:
        while still_wanted():
            await room.bell.wait()
            room.bell.clear()
            try:
                if room.unchecked:
                    await self._check(room)
                while room.behind:
                    await self._advance(room)
            except db.Error as gone:
                # Nothing passes to a viewer behind the roster, and no event is skipped: try again.
                log.warning("room_not_read", room=room.room_id, error=type(gone).__name__)
                await asyncio.sleep(_RETRY)
                room.look(behind=True, unchecked=True)

    async def _advance(self, room: Watched) -> None:
        """Read what is new in the room, once for everyone, and hand it out."""
        room.behind = False
        new = await read(new_events, room_id=room.room_id, position=room.position, limit=BATCH)
        if new.revision is not None:
            room.learn_revision(new.revision)
        if room.unchecked:
            await self._check(room)
        room.hand_out(new.events)
        if len(new.events) == BATCH:
            room.behind = True

    async def _check(self, room: Watched) -> None:
        """Ask once who of the viewers still takes part, and part with the others."""
        room.unchecked = False
        revision = room.revision
        asked = {viewer.user_id for viewer in room.viewers}
        staying = await read(participants_among, room_id=room.room_id, user_ids=asked)
        for viewer in list(room.viewers):
            if viewer.user_id in staying:
                viewer.checked(revision)
            elif viewer.user_id in asked:
                viewer.end(NOT_HERE)

    # --- what goes on by itself

    async def _compare_for_ever(self) -> None:
        checked_at = time.monotonic()
        while still_wanted():
            await asyncio.sleep(COMPARE_SECONDS)
            if not self._rooms:
                continue
            try:
                marks = await read(room_marks, list(self._rooms))
            except db.Error as gone:
                log.warning("rooms_not_compared", error=type(gone).__name__)
                continue
            all_again = time.monotonic() - checked_at > CHECK_SECONDS
            if all_again:
                checked_at = time.monotonic()
            for room_id, room in self._rooms.items():
                mark = marks.get(room_id)
                if mark is None or room.pump is None:
                    # It has only just been opened.
                    continue
                room.learn_revision(mark.revision)
                if mark.position > room.position or all_again:
                    room.look(behind=mark.position > room.position, unchecked=all_again)

    async def _tend_for_ever(self) -> None:
        while still_wanted():
            await asyncio.sleep(COMPARE_SECONDS)
            rooms = list(self._rooms.values())
            before = time.monotonic() - STUCK_SECONDS
            for viewer in [viewer for room in rooms for viewer in room.viewers]:
                if viewer.blocked_since is not None and viewer.blocked_since < before:
                    viewer.end(RESUME)
            try:
                for room in rooms:
                    await self._tend(room)
            except (RedisError, OSError) as gone:
                log.warning("rooms_not_tended", error=type(gone).__name__)

    async def _tend(self, room: Watched) -> None:
        await self._tell_presence(room)
        if self._subscription.up and room.silent(EXPIRY):
            self._spawn(self._rebuild(room), "hub-rebuild")
        if not room.viewers and not room.announced and room.pump is not None:
            await self._forget(room)

    async def _tell_presence(self, room: Watched) -> None:
        here = room.members_here(_GRACE)
        gone = room.announced - here
        now = time.monotonic()
        if here == room.announced and now - room.announced_at < presence.BEAT_SECONDS:
            return
        if not here and not gone:
            return
        if not self._subscription.up:
            # Nobody else can be told: show at least those whom we see ourselves.
            room.now_online((room.online - gone) | here)
            room.announced = here
            return
        keys, arguments = presence.announcement(
            room_id=room.room_id, process=self.name, here=sorted(here), gone=sorted(gone)
        )
        online: Any = await self._announce(keys=keys, args=arguments)
        room.announced, room.announced_at = here, now
        room.now_online(set(online))

    # --- tasks

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        """Notice a task that broke: then everybody is sent away, to come back to a fresh hub."""
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        log.error("hub_failed", task=task.get_name(), exc_info=task.exception())
        self.failed = True
        for room in self._rooms.values():
            for viewer in room.viewers:
                viewer.end(RESTARTING)
        for other in self._tasks:
            other.cancel()
        self._parting = asyncio.get_running_loop().create_task(self._subscription.close())


_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = weakref.WeakKeyDictionary()


def the_hub() -> Hub:
    """Return the hub of the running event loop, a fresh one if the last one broke."""
    loop = asyncio.get_running_loop()
    hub = _hubs.get(loop)
    if hub is None or hub.failed:
        hub = _hubs[loop] = Hub()
    return hub
