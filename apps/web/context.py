"""What does the frame around every member's page show?"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from apps.accounts.models import User
from apps.web.selectors import NAV_ROOMS, rooms_of, waiting_count


def shell(request: HttpRequest) -> dict[str, Any]:
    """Offer the navigation's figures, asked for only where a template shows them."""
    member: Any = getattr(request, "user", None)
    if not isinstance(member, User):
        return {}
    return {
        "nav_rooms": SimpleLazyObject(lambda: list(rooms_of(member)[:NAV_ROOMS])),
        "nav_waiting": SimpleLazyObject(lambda: waiting_count(member)),
    }
