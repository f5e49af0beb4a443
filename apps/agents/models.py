"""Who acts? Named configurations that a model runs under."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from apps.accounts.models import ObjectPermission
from apps.agents.querysets import AgentQuerySet
from apps.core.models import Stamped


class Agent(Stamped):
    """A persona with a capability ceiling: the most it may ever use, whatever it is granted."""

    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=80)
    description = models.CharField(max_length=300, blank=True)
    persona = models.TextField(max_length=20_000, blank=True)
    ceiling = models.JSONField(default=list)
    model_name = models.CharField(max_length=120, blank=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    parallel_tool_calls = models.BooleanField(default=True)
    # Whether its model takes images; one that does not refuses the whole request.
    sees_images = models.BooleanField(default=False)
    inactivity_s = models.PositiveIntegerField(null=True, blank=True)
    budget_s = models.PositiveIntegerField(null=True, blank=True)
    context_tokens = models.PositiveIntegerField(null=True, blank=True)
    enabled = models.BooleanField(default=True)
    revision = models.PositiveIntegerField(default=1)

    objects = AgentQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        default_permissions = ("view",)
        permissions = [("use_agent", "Use the agent"), ("manage_agent", "Manage the agent")]

    def __str__(self) -> str:
        return self.name


class AgentPermission(ObjectPermission):
    """What a member holds on an agent."""

    content_object = models.ForeignKey(Agent, on_delete=models.CASCADE)
