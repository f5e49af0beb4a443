"""Which artifacts does a member see?"""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.accounts.models import User
from apps.rooms.models import Room


class ArtifactQuerySet(models.QuerySet[Any]):
    """Artifacts, narrowed by who asks: access comes from owner and room, not from own rows."""

    def visible_to(self, user: User) -> ArtifactQuerySet:
        """Keep one's own artifacts and those of rooms that one takes part in."""
        if not user.is_active:
            return self.none()
        return self.filter(models.Q(owner=user) | models.Q(room__in=Room.objects.visible_to(user)))

    def writable_by(self, user: User) -> ArtifactQuerySet:
        """Keep the artifacts whose owner this member is."""
        return self.filter(owner=user) if user.is_active else self.none()
