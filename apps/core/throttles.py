"""How often may somebody do something? Counted windows in Redis, closed while it is away."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import Any

import redis
import structlog
from django.conf import settings

from apps.core.errors import Refusal, Unavailable

log = structlog.get_logger(__name__)

_PREFIX = "kaizen:throttle:"


@dataclass(frozen=True, slots=True)
class Limit:
    """So many times within so many seconds."""

    name: str
    most: int
    seconds: int


class Throttled(Refusal):
    """Too often; waiting helps. The `first` of a window is told apart: it alone is written down."""

    code = "throttled"
    status = 429

    def __init__(
        self, message: str, *, limit: str, who: str, first: bool, retry_after: int
    ) -> None:
        super().__init__(message, extra={"retry_after": retry_after})
        self.limit = limit
        self.who = who
        self.first = first


def spend(limit: Limit, who: str) -> None:
    """Count one use, refusing the one that is too many, and every one while the count is away."""
    key = _key(limit, who)
    try:
        used, left = _spend(settings.REDIS_URL)(keys=[key], args=[limit.seconds])
    except redis.RedisError as gone:
        log.warning("throttle_store_away", limit=limit.name, error=type(gone).__name__)
        raise Unavailable(
            "Kaizen cannot count requests at the moment, so it takes none. Try again soon.",
            extra={"retry_after": 2},
        ) from gone
    if int(used) > limit.most:
        wait = max(1, int(left))
        raise Throttled(
            f"That is more than {limit.most} times in {limit.seconds} seconds."
            f" Try again in {wait} s.",
            limit=limit.name,
            who=who,
            first=int(used) == limit.most + 1,
            retry_after=wait,
        )


def give_back(limit: Limit, who: str) -> None:
    """Take back one counted use that turned out not to count."""
    key = _key(limit, who)
    try:
        pipeline = store(settings.REDIS_URL).pipeline(transaction=True)
        pipeline.set(key, 0, ex=limit.seconds, nx=True)
        pipeline.decr(key)
        pipeline.execute()
    except redis.RedisError as gone:
        # The count stays too high until its window ends: stricter, never looser.
        log.warning("throttle_store_away", limit=limit.name, error=type(gone).__name__)


def _key(limit: Limit, who: str) -> str:
    return f"{_PREFIX}{limit.name}:{hashlib.sha256(who.encode()).hexdigest()[:32]}"


# The window is set before the count, so a counter without an end cannot come to be.
_SPEND = """
redis.call('SET', KEYS[1], 0, 'EX', ARGV[1], 'NX')
return {redis.call('INCR', KEYS[1]), redis.call('TTL', KEYS[1])}
"""


@functools.lru_cache(maxsize=4)
def _spend(url: str) -> Any:
    return store(url).register_script(_SPEND)


@functools.lru_cache(maxsize=4)
def store(url: str) -> redis.Redis:
    """Return the client of the store that counts and remembers: it answers soon, or not at all."""
    return redis.Redis.from_url(url, socket_timeout=1.0, socket_connect_timeout=1.0, retry=None)
