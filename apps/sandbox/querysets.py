"""Which workspaces does a member see?"""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.accounts.models import User


class WorkspaceQuerySet(models.QuerySet[Any]):
    """Workspaces, narrowed by who asks."""

    def visible_to(self, user: User) -> WorkspaceQuerySet:
        """Keep one's own: other members of the room have workspaces of their own."""
        return self.filter(owner=user) if user.is_active else self.none()
