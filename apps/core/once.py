"""Has this been seen before? Remembered for seconds in Redis, for all processes together."""

from __future__ import annotations

import hashlib

import redis
import structlog
from django.conf import settings

from apps.core.errors import Unavailable
from apps.core.throttles import store

log = structlog.get_logger(__name__)

_PREFIX = "kaizen:once:"


def first_time(purpose: str, what: str, *, seconds: int) -> bool:
    """Remember it, and say whether nobody did before; a memory that is away refuses.

    Of two that ask at the same time, one is told yes.
    """
    key = f"{_PREFIX}{purpose}:{hashlib.sha256(what.encode('utf-8', 'replace')).hexdigest()}"
    try:
        return bool(store(settings.REDIS_URL).set(key, 1, ex=seconds, nx=True))
    except redis.RedisError as gone:
        log.warning("once_store_away", purpose=purpose, error=type(gone).__name__)
        raise Unavailable(
            "Kaizen cannot tell at the moment whether it has seen this before, so it takes nothing."
            " Try again soon.",
            extra={"retry_after": 2},
        ) from gone
