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

log = structlog.get_logger(__name__)

CHANNEL_PREFIX = "kaizen:room:"


@functools.cache
def _client() -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=1.0, socket_connect_timeout=1.0, retry=None
    )


def channel_of(room_id: str) -> str:
    """Return the pub/sub channel of a room."""
    return CHANNEL_PREFIX + room_id


def ring_room(*, room_id: str, position: int, roster_revision: int) -> None:
    """Tell every hub, after commit, that the room has moved on to `position`."""
    message = {"bell": position, "revision": roster_revision}
    transaction.on_commit(lambda: _publish(room_id, message))


def send_frame(room_id: str, frame: dict[str, Any]) -> None:
    """Send a passing message to the room now."""
    _publish(room_id, frame)


def _publish(room_id: str, message: dict[str, Any]) -> None:
    try:
        _client().publish(channel_of(room_id), json.dumps(message, separators=(",", ":")))
    except redis.RedisError as gone:
        # Hubs re-read positions by themselves while Redis is away.
        log.warning("room_bell_not_sent", room=room_id, error=type(gone).__name__)
