"""How many API requests may one person send?"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from apps.core.throttles import Limit, spend


class MemberThrottle(BaseThrottle):
    """Count requests by person, and by network address where nobody is signed in."""

    def allow_request(self, request: Request, view: Any) -> bool:
        """Count this request, or refuse it; a count that cannot be kept refuses too."""
        limit = Limit("api", settings.KAIZEN_API_PER_MINUTE, 60)
        who = getattr(request.user, "key", None)
        spend(limit, who or f"address:{request.META.get('REMOTE_ADDR', '')}")
        return True
