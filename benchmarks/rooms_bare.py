"""As little as possible that does the same: Redis pub/sub straight into every open socket.

No membership, no position, no database, no bound, no resume: what is lost is lost. It is the floor
that the rooms of Kaizen are compared with.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from redis import asyncio as aioredis

CHANNEL = "benchmark:bare"

_sends: set[Any] = set()
_relay: asyncio.Task[None] | None = None


async def _forward() -> None:
    client = aioredis.Redis.from_url(os.environ["REDIS_URL"], protocol=2)
    async with client.pubsub() as pubsub:
        await pubsub.subscribe(CHANNEL)
        async for message in pubsub.listen():
            if message["type"] == "message":
                text = message["data"].decode()
                for send in list(_sends):
                    await send({"type": "websocket.send", "text": text})


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Take a socket, and forward every message to it until it goes."""
    global _relay
    if scope["type"] != "websocket":
        return
    if _relay is None:
        _relay = asyncio.create_task(_forward())
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "text": '{"type":"hello","position":0}'})
    _sends.add(send)
    try:
        while (await receive())["type"] != "websocket.disconnect":
            pass
    finally:
        _sends.discard(send)
