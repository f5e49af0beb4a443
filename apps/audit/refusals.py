"""How is a refusal written down? By the edge, once the refusing transaction has rolled back."""

from __future__ import annotations

import re

from apps.audit.services import Keyed, record
from apps.core.errors import NotFound, Refusal
from apps.core.throttles import Throttled

# Some limits count by what somebody typed or where they are; only keys of ours are written down.
_COUNTED = re.compile(r"(?:user|run|automation|pause):[0-9a-f-]{1,36}")


def record_refusal(
    *, actor: Keyed | str, action: str, subject: Keyed | str, refusal: Refusal
) -> None:
    """Record that somebody was refused, and by which rule."""
    record(
        actor=actor,
        action=action,
        subject=subject,
        outcome="refused",
        detail={"code": refusal.code},
    )


def record_api_refusal(actor: str, route: str, refusal: Refusal) -> None:
    """Record that an API request was refused; its own transaction is gone by now."""
    if isinstance(refusal, Throttled):
        record_throttled(actor=actor, subject=route, refusal=refusal)
        return
    action = "api.not_found" if isinstance(refusal, NotFound) else "api.forbidden"
    record_refusal(actor=actor, action=action, subject=route, refusal=refusal)


def record_throttled(*, actor: Keyed | str, subject: Keyed | str, refusal: Throttled) -> None:
    """Record that somebody came too often; those who ask see to it that a window leaves one row."""
    of = {"of": refusal.who} if _COUNTED.fullmatch(refusal.who) else {}
    record(
        actor=actor,
        action="request.throttled",
        subject=subject,
        outcome="refused",
        detail={"code": refusal.code, "limit": refusal.limit, **of},
    )
