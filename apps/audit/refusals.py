"""How is a refusal written down? By the edge, once the refusing transaction has rolled back."""

from __future__ import annotations

from apps.audit.services import Keyed, record
from apps.core.errors import NotFound, Refusal


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
    action = "api.not_found" if isinstance(refusal, NotFound) else "api.forbidden"
    record_refusal(actor=actor, action=action, subject=route, refusal=refusal)
