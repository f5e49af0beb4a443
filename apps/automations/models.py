"""What may an agent do for a member while nobody asks? Standing grants, and how each last went."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from apps.agents.models import Agent
from apps.automations.querysets import AutomationQuerySet
from apps.core.models import Stamped
from apps.rooms.models import Room
from apps.runs.models import Run


class Automation(Stamped):
    """A member's standing grant: this agent is asked these words in this room, until then.

    Its revision grows with every change of what is granted. A run carries the revision under which
    it started, and no call of it passes under another one.
    """

    class Trigger(models.TextChoices):
        SCHEDULE = Run.Trigger.SCHEDULE.value, "A schedule"
        WEBHOOK = Run.Trigger.WEBHOOK.value, "A webhook"

    class Result(models.TextChoices):
        STARTED = "started", "Started"
        QUEUED = "queued", "Waits its turn"
        REFUSED = "refused", "Not started"

    class State(models.TextChoices):
        ACTIVE = "active", "Active"
        PAUSED = "paused", "Paused"
        EXPIRED = "expired", "Expired"
        REVOKED = "revoked", "Revoked"

    member = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="automations"
    )
    name = models.CharField(max_length=80)
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    room = models.ForeignKey(Room, on_delete=models.CASCADE, related_name="+")
    trigger = models.CharField(max_length=10, choices=Trigger.choices)
    words = models.TextField()
    schedule = models.CharField(max_length=120, blank=True)
    time_zone = models.CharField(max_length=64, default="UTC")
    expires_at = models.DateTimeField()
    enabled = models.BooleanField(default=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.CharField(max_length=120, blank=True)
    revision = models.PositiveIntegerField(default=1)
    token_hash = models.CharField(max_length=64, blank=True)

    next_due_at = models.DateTimeField(null=True, blank=True)
    last_tried_at = models.DateTimeField(null=True, blank=True)
    last_result = models.CharField(max_length=10, choices=Result.choices, blank=True)
    last_explanation = models.CharField(max_length=300, blank=True)
    # Not a foreign key: runs of a room go with their room, in whatever order.
    last_run = models.UUIDField(null=True, blank=True)

    objects = AutomationQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        default_permissions = ("view",)
        permissions = [("revoke_automation", "Revoke anybody's automation")]
        constraints = [
            models.UniqueConstraint(fields=["member", "name"], name="automations_one_per_name"),
            models.CheckConstraint(
                condition=models.Q(trigger="schedule") & ~models.Q(schedule="")
                | ~models.Q(trigger="schedule") & models.Q(schedule="", next_due_at=None),
                name="automations_scheduled_or_not",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_due_at"],
                condition=models.Q(next_due_at__isnull=False),
                name="automations_due",
            ),
            models.Index(fields=["member", "-created_at", "-id"], name="automations_of_member"),
            models.Index(fields=["-created_at", "-id"], name="automations_newest"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def state(self) -> State:
        """How the grant stands by the clock of this process."""
        if self.revoked_at is not None:
            return self.State.REVOKED
        if self.expires_at <= timezone.now():
            return self.State.EXPIRED
        return self.State.ACTIVE if self.enabled else self.State.PAUSED
