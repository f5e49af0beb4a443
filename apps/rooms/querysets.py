"""Which rooms does a member see?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models

from apps.accounts.models import User
from apps.accounts.permissions import Permission, held

if TYPE_CHECKING:
    from apps.rooms.models import Room


class RoomQuerySet(models.QuerySet["Room"]):
    """Rooms, narrowed by who asks."""

    def visible_to(self, user: User) -> RoomQuerySet:
        """Keep the rooms that this member takes part in."""
        return held(self, user, Permission.ROOM_TAKE_PART)  # type: ignore[return-value]
