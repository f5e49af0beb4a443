"""Which agents does a member see?"""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.accounts.models import User
from apps.accounts.permissions import Permission, held


class AgentQuerySet(models.QuerySet[Any]):
    """Agents, narrowed by who asks."""

    def visible_to(self, user: User) -> AgentQuerySet:
        """Keep the agents that this member may use or manage."""
        return held(self, user, Permission.AGENT_USE, Permission.AGENT_MANAGE)  # type: ignore[return-value]
