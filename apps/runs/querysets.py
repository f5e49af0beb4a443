"""Which runs and calls does a member see, and which are ready for work?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models

from apps.accounts.models import User
from apps.rooms.models import Room

if TYPE_CHECKING:
    from apps.runs.models import Call, Run


class RunQuerySet(models.QuerySet["Run"]):
    """Runs, narrowed by who asks."""

    def visible_to(self, user: User) -> RunQuerySet:
        """Keep the runs of rooms that this member takes part in."""
        return self.filter(room__in=Room.objects.visible_to(user))


class CallQuerySet(models.QuerySet["Call"]):
    """Calls, narrowed by who asks."""

    def visible_to(self, user: User) -> CallQuerySet:
        """Keep the calls of rooms that this member takes part in."""
        return self.filter(run__room__in=Room.objects.visible_to(user))
