"""How does one web process hear the rooms that it watches? One Redis connection, kept alive.

Plain pub/sub: whatever is said while this connection is down is not repeated. So the owner is told
when it hears again, and reads anew what it watches.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import structlog
from django.conf import settings
from redis import asyncio as aioredis
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from apps.core.wanted import still_wanted
from apps.rooms.relay import PATIENCE, channel_of, room_of

log = structlog.get_logger(__name__)

_QUIET = 3.0
_RETRY = 0.5


class Subscription:
    """The rooms that this process hears. Both callbacks are called on the event loop."""

    def __init__(
        self,
        *,
        name: str,
        heard: Callable[[str, dict[str, Any]], None],
        returned: Callable[[], None],
    ) -> None:
        self.client: aioredis.Redis = aioredis.Redis.from_url(
            settings.REDIS_URL,
            socket_timeout=PATIENCE,
            socket_connect_timeout=PATIENCE,
            retry=None,
            protocol=2,
        )
        self.up = False
        self._heard = heard
        self._returned = returned
        # A channel of our own keeps the connection subscribed while nobody watches a room.
        self._own = f"kaizen:hub:{name}"
        self._rooms: set[str] = set()
        self._confirmed: dict[str, asyncio.Event] = {}
        self._order = asyncio.Lock()
        self._pubsub: PubSub | None = None
        self._lost = False

    async def add(self, room_id: str) -> None:
        """Hear a room from now on; returns once Redis has confirmed it, or is known to be away."""
        self._rooms.add(room_id)
        async with self._order:
            pubsub = self._pubsub
            if pubsub is None:
                # The listener subscribes to every room when it is back.
                return
            confirmed = self._confirmed.setdefault(room_id, asyncio.Event())
            try:
                await pubsub.subscribe(channel_of(room_id))
                await asyncio.wait_for(confirmed.wait(), 2 * PATIENCE)
            except (RedisError, OSError, TimeoutError):
                self._lost = True

    async def remove(self, room_id: str) -> None:
        """Hear a room no longer."""
        self._rooms.discard(room_id)
        async with self._order:
            if room_id in self._rooms:
                # Somebody came back while we waited for our turn.
                return
            self._confirmed.pop(room_id, None)
            if self._pubsub is None:
                return
            try:
                await self._pubsub.unsubscribe(channel_of(room_id))
            except (RedisError, OSError):
                self._lost = True

    async def run(self) -> None:
        """Listen until cancelled, through every absence of the store."""
        away = False
        while still_wanted():
            try:
                async with self.client.pubsub() as pubsub:
                    # In turn with `add`, so that a room is either named here or added later.
                    async with self._order:
                        self._lost = False
                        # Our own channel comes last: once it is confirmed, so are the rooms.
                        await pubsub.subscribe(*map(channel_of, self._rooms), self._own)
                        self._pubsub = pubsub
                    away = False
                    await self._listen(pubsub)
            except (RedisError, OSError) as gone:
                if not away:
                    log.warning("hub_hears_nothing", error=type(gone).__name__)
                away = True
            finally:
                self._pubsub, self.up = None, False
                self._confirmed.clear()
            await asyncio.sleep(_RETRY)

    async def close(self) -> None:
        """Give the connections back."""
        await self.client.aclose()

    async def _listen(self, pubsub: PubSub) -> None:
        asked = False
        while still_wanted():
            message = await pubsub.get_message(timeout=_QUIET)
            if self._lost:
                # Never let the client library reconnect by itself: we would not notice.
                raise ConnectionError("The connection was lost.")
            if message is None:
                if asked:
                    raise ConnectionError("Redis does not answer.")
                await pubsub.ping()
                asked = True
                continue
            asked = False
            kind, channel = message["type"], message["channel"]
            if kind == "subscribe":
                self._confirm(channel.decode())
            elif kind == "message":
                self._take(channel.decode(), message["data"])

    def _confirm(self, channel: str) -> None:
        room_id = room_of(channel)
        if room_id is not None:
            self._confirmed.setdefault(room_id, asyncio.Event()).set()
        elif channel == self._own:
            self.up = True
            log.info("hub_hears", rooms=len(self._rooms))
            self._returned()

    def _take(self, channel: str, data: bytes) -> None:
        room_id = room_of(channel)
        if room_id is None:
            return
        try:
            said = json.loads(data)
        except ValueError:
            said = None
        if isinstance(said, dict):
            self._heard(room_id, said)
        else:
            log.warning("hub_heard_garbage", room=room_id)
