"""What was an agent given? Exact package tools, by version."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from apps.agents.models import Agent
from apps.core.models import Stamped
from apps.packages.models import PackageVersion


class ToolGrant(Stamped):
    """One exact tool of one exact package version, given to one agent."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="grants")
    version = models.ForeignKey(PackageVersion, on_delete=models.PROTECT, related_name="grants")
    tool_name = models.CharField(max_length=64)
    granted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        ordering = ["tool_name"]
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["agent", "tool_name"], name="tool_grants_one_each")
        ]

    def __str__(self) -> str:
        return f"{self.tool_name} to {self.agent_id}"
