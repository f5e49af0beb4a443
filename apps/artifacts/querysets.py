"""Which artifacts does a member see?"""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.accounts.models import User
from apps.accounts.permissions import Permission, held_ids
from apps.rooms.models import Room
from apps.runs.models import Run


class ArtifactQuerySet(models.QuerySet[Any]):
    """Artifacts, narrowed by who asks: an agent's access comes from owner and room alone."""

    def visible_to(self, user: User) -> ArtifactQuerySet:
        """Keep one's own artifacts and those of rooms that one takes part in."""
        return self.visible_under(user.pk) if user.is_active else self.none()

    def visible_under(self, user_id: Any) -> ArtifactQuerySet:
        """Keep the same for a member whose account is known to be active, named by id."""
        rooms = Room.objects.visible_under(user_id)
        return self.filter(models.Q(owner=user_id) | models.Q(room__in=rooms))

    def readable_by(self, user: User) -> ArtifactQuerySet:
        """Keep those too that were shared with this person, for whom no agent reads them."""
        if not user.is_active:
            return self.none()
        shared = held_ids(self.model, user, Permission.ARTIFACT_READ)
        rooms = Room.objects.visible_to(user)
        return self.filter(
            models.Q(owner=user) | models.Q(room__in=rooms) | models.Q(pk__in=shared)
        )

    def writable_by(self, user: User) -> ArtifactQuerySet:
        """Keep the artifacts whose owner this member is."""
        return self.filter(owner=user) if user.is_active else self.none()


class DraftQuerySet(models.QuerySet[Any]):
    """Drafts, which are their owner's alone."""

    def visible_to(self, user: User) -> DraftQuerySet:
        """Keep one's own."""
        return self.filter(owner=user) if user.is_active else self.none()

    def open(self) -> DraftQuerySet:
        """Keep those that are neither finished nor discarded."""
        return self.filter(state="open")

    def interrupted(self) -> DraftQuerySet:
        """Keep the open ones that no run writes any more."""
        going = Run.objects.filter(pk=models.OuterRef("run_id")).exclude(state=Run.State.FINISHED)
        return self.open().filter(~models.Exists(going))
