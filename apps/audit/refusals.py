"""How is a refusal written down? By the edge, once the refusing transaction has rolled back."""

from __future__ import annotations

from apps.audit.services import Keyed, record
from apps.core.errors import Refusal


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
    """Record that an API request was forbidden; its own transaction is gone by now."""
    record_refusal(actor=actor, action="api.forbidden", subject=route, refusal=refusal)
