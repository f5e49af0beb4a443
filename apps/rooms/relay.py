"""How do passing things reach the people in a room? Bells and frames over Redis pub/sub.

A bell carries a position and the roster revision, never a payload: the hub reads the durable
events itself. A frame is a passing message without a position. Both may be lost; nothing durable
depends on either.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import redis
import structlog
from django.conf import settings
from django.db import transaction

from apps.core.afterwards import afterwards

log = structlog.get_logger(__name__)

CHANNEL_PREFIX = "kaizen:room:"
# A dead store must cost a caller a second, not a minute.
PATIENCE = 1.0


@functools.cache
def client() -> redis.Redis:
    """Return this process's connection pool for passing things; it never retries by itself."""
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE, retry=None
    )


def channel_of(room_id: str) -> str:
    """Return the pub/sub channel of a room."""
    return CHANNEL_PREFIX + room_id


def room_of(channel: str) -> str | None:
    """Return the room that a pub/sub channel belongs to."""
    return channel.removeprefix(CHANNEL_PREFIX) if channel.startswith(CHANNEL_PREFIX) else None


def encode(message: dict[str, Any]) -> str:
    """Write a message as it travels."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def ring_room(*, room_id: str, position: int, roster_revision: int) -> None:
    """Tell every hub, after commit, that the room has moved on to `position`."""
    message = {"bell": position, "revision": roster_revision}
    transaction.on_commit(lambda: afterwards(lambda: _publish(room_id, message)))


def send_frame(room_id: str, frame: dict[str, Any]) -> None:
    """Send a passing message to the room now."""
    _publish(room_id, frame)


def _publish(room_id: str, message: dict[str, Any]) -> None:
    try:
        client().publish(channel_of(room_id), encode(message))
    except redis.RedisError as gone:
        # Hubs re-read positions by themselves, so this costs at most a second.
        log.warning("room_bell_not_sent", room=room_id, error=type(gone).__name__)
