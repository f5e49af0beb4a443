"""What was an agent given, what does the deployment allow, and what does a member keep?"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.agents.models import Agent
from apps.core.models import Stamped
from apps.packages.models import PackageVersion
from apps.rooms.models import Room


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


class PolicyState(models.Model):
    """The one row that says which tool policy holds: a number to count by, a mark to know it by.

    The mark is new with every change. What a process keeps of the policy is kept under the mark,
    so that a number which a lost transaction had used cannot stand for another policy.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    revision = models.PositiveIntegerField(default=0)
    mark = models.UUIDField(default=uuid.uuid4)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    changed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        default_permissions = ()
        constraints = [models.CheckConstraint(condition=Q(id=1), name="policy_state_one_row")]

    @property
    def key(self) -> str:
        """Name the policy in audit rows."""
        return "policy:1"

    def __str__(self) -> str:
        return f"policy revision {self.revision}"


class PolicyNode(Stamped):
    """What was said at one node of the tool policy; a node without a row says nothing."""

    class State(models.TextChoices):
        ALLOWED = "allowed", "On"
        DISABLED = "disabled", "Off"

    family = models.CharField(max_length=40, blank=True)
    surface = models.CharField(max_length=120, blank=True)
    endpoint = models.CharField(max_length=64, blank=True)
    state = models.CharField(max_length=10, choices=State.choices)
    note = models.CharField(max_length=200, blank=True)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        ordering = ["family", "surface", "endpoint"]
        verbose_name = "node of the tool policy"
        verbose_name_plural = "tool policy"
        default_permissions = ("view",)
        permissions = [("manage_policy", "Change the tool policy and pinned arguments")]
        constraints = [
            models.UniqueConstraint(
                fields=["family", "surface", "endpoint"], name="policy_nodes_one_each"
            ),
            models.CheckConstraint(
                condition=(Q(surface="") | ~Q(family="")) & (Q(endpoint="") | ~Q(surface="")),
                name="policy_nodes_no_gap",
            ),
            # Root and source only tighten.
            models.CheckConstraint(
                condition=Q(state="disabled") | ~Q(surface=""), name="policy_nodes_tighten_above"
            ),
        ]

    @property
    def path(self) -> tuple[str, ...]:
        """The words from the root down."""
        return tuple(word for word in (self.family, self.surface, self.endpoint) if word)

    def __str__(self) -> str:
        return f"{'/'.join(self.path) or 'root'} {self.state}"


class PinnedArguments(Stamped):
    """The arguments of one tool that the deployment sets itself."""

    family = models.CharField(max_length=40)
    surface = models.CharField(max_length=120)
    endpoint = models.CharField(max_length=64)
    values = models.JSONField()
    note = models.CharField(max_length=200, blank=True)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        ordering = ["family", "surface", "endpoint"]
        default_permissions = ("view",)
        verbose_name_plural = "pinned arguments"
        constraints = [
            models.UniqueConstraint(
                fields=["family", "surface", "endpoint"], name="pinned_arguments_one_each"
            )
        ]

    @property
    def path(self) -> tuple[str, str, str]:
        """Where the tool hangs in the tool policy."""
        return (self.family, self.surface, self.endpoint)

    def __str__(self) -> str:
        return f"pins of {self.endpoint}"


class ToolChoice(Stamped):
    """What a member keeps of an agent's tools in one room; without a row, all of them."""

    room = models.ForeignKey(Room, on_delete=models.CASCADE, related_name="+")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    member = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    tools = models.JSONField(default=list)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["room", "agent", "member"], name="tool_choices_one_each"
            )
        ]

    def __str__(self) -> str:
        return f"{len(self.tools)} tools of {self.agent_id} in {self.room_id}"
