"""Which automations does a member see?"""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.accounts.models import User


class AutomationQuerySet(models.QuerySet[Any]):
    """Automations, narrowed by who asks."""

    def visible_to(self, user: User) -> AutomationQuerySet:
        """Keep the member's own."""
        return self.filter(member=user)
