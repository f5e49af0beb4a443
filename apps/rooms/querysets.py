"""Which rooms does a member see?"""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.accounts.models import User
from apps.accounts.permissions import Permission, held, held_under


class RoomQuerySet(models.QuerySet[Any]):
    """Rooms, narrowed by who asks."""

    def visible_to(self, user: User) -> RoomQuerySet:
        """Keep the rooms that this member takes part in."""
        return held(self, user, Permission.ROOM_TAKE_PART)  # type: ignore[return-value]

    def visible_under(self, user_id: Any) -> RoomQuerySet:
        """Keep the same for a member whose account is known to be active, named by id."""
        return held_under(self, user_id, Permission.ROOM_TAKE_PART)  # type: ignore[return-value]
