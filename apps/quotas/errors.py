"""How is it said that something is used up?"""

from __future__ import annotations

from datetime import datetime

from apps.core.errors import Conflict


class QuotaExceeded(Conflict):
    """A quota does not hold what was asked for; the words say when it renews.

    Without a time it frees itself as soon as something that is running ends.
    """

    code = "quota_exceeded"

    def __init__(self, message: str, *, renews_at: datetime | None) -> None:
        super().__init__(message)
        self.renews_at = renews_at


class NotALimit(Conflict):
    """The quota that was described cannot be one."""

    code = "not_a_limit"
