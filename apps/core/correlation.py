"""Which request started this? One id, from the request to the child process."""

from __future__ import annotations

import uuid

from structlog import contextvars

KEY = "correlation_id"


def current_correlation_id() -> str:
    """Return the id bound to this context, binding a new one where there is none."""
    known = contextvars.get_contextvars().get(KEY)
    if isinstance(known, str) and known:
        return known
    fresh = uuid.uuid4().hex
    contextvars.bind_contextvars(**{KEY: fresh})
    return fresh


def bind_correlation_id(value: str) -> None:
    """Continue under an id that came with a row or a message."""
    contextvars.bind_contextvars(**{KEY: value})
