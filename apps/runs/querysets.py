"""Which runs and calls does a member see, and which are ready for work?"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.domain.tooling import CallState
from apps.rooms.models import Room


class RunQuerySet(models.QuerySet[Any]):
    """Runs, narrowed by who asks."""

    def visible_to(self, user: User) -> RunQuerySet:
        """Keep the runs of rooms that this member takes part in."""
        return self.filter(room__in=Room.objects.visible_to(user))


class CallQuerySet(models.QuerySet[Any]):
    """Calls, narrowed by who asks."""

    def visible_to(self, user: User) -> CallQuerySet:
        """Keep the calls of rooms that this member takes part in."""
        return self.filter(run__room__in=Room.objects.visible_to(user))

    def running(self) -> CallQuerySet:
        """Keep the calls that somebody executes; one that waits for another system nobody does."""
        return self.filter(state=CallState.DISPATCHED.value, executor_expires_at__isnull=False)

    def silent(self) -> CallQuerySet:
        """Keep the dispatched calls whose executor has not been heard of in time."""
        return self.filter(state=CallState.DISPATCHED.value, executor_expires_at__lt=Now())
