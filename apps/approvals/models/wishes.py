"""What did people decide before a call was made? Modes, rules, allow-lists, exact calls."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models

from apps.agents.models import Agent
from apps.automations.models import Automation
from apps.core.models import Stamped
from apps.domain.policy.modes import Floor, MemberMode, Scope, Second
from apps.rooms.models import Room
from apps.runs.models import Run


class ModeChoice(Stamped):
    """How a member wants to be asked: in general, or by one agent in one room."""

    class Mode(models.TextChoices):
        AS_DECLARED = MemberMode.AS_DECLARED.value, "As each tool declares"
        FIRST_USE = MemberMode.FIRST_USE.value, "On first use"
        ALWAYS = MemberMode.ALWAYS.value, "Always"
        NEVER = MemberMode.NEVER.value, "Never, where the rules allow"

    member = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mode_choices"
    )
    agent = models.ForeignKey(
        Agent, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    room = models.ForeignKey(
        Room, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    mode = models.CharField(max_length=12, choices=Mode.choices)

    class Meta:
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["member", "agent", "room"],
                nulls_distinct=False,
                name="modes_one_per_place",
            ),
            models.CheckConstraint(
                condition=models.Q(agent=None, room=None)
                | models.Q(agent__isnull=False, room__isnull=False),
                name="modes_general_or_of_a_seat",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.member_id} {self.mode}"


class Remembered(Stamped):
    """An exact call that a member allowed once for all in a room."""

    member = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    room = models.ForeignKey(Room, on_delete=models.CASCADE, related_name="+")
    tool = models.CharField(max_length=64)
    arguments_digest = models.CharField(max_length=71)
    descriptor_digest = models.CharField(max_length=71)

    class Meta:
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["member", "room", "tool", "arguments_digest", "descriptor_digest"],
                name="remembered_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool} in {self.room_id}"


class ApprovalRule(Stamped):
    """What an administrator asks for at one node of the policy tree; it can only tighten."""

    class Floor(models.TextChoices):
        NONE = Floor.NONE.value, "Nothing more"
        FIRST_USE = Floor.FIRST_USE.value, "Ask on first use"
        ALWAYS = Floor.ALWAYS.value, "Always ask"

    class Second(models.TextChoices):
        NOBODY = Second.NOBODY.value, "Nobody"
        ROOM_OWNER = Second.ROOM_OWNER.value, "The room's owner, or an administrator"
        ADMINISTRATOR = Second.ADMINISTRATOR.value, "An administrator"

    class Scope(models.TextChoices):
        SENSITIVE = Scope.SENSITIVE.value, "Sensitive calls"
        WRITES = Scope.WRITES.value, "All calls that change something"

    family = models.CharField(max_length=40, blank=True, help_text="Empty: every family.")
    surface = models.CharField(max_length=200, blank=True, help_text="Empty: every surface.")
    tool = models.CharField(max_length=64, blank=True, help_text="Empty: every tool.")
    floor = models.CharField(
        "least", max_length=10, choices=Floor.choices, blank=True, default=Floor.NONE
    )
    never_allowed = models.BooleanField(
        "members may choose never to be asked",
        null=True,
        blank=True,
        help_text="Unknown leaves it to the other levels; a no on any level is final.",
    )
    second = models.CharField(
        "second yes from", max_length=14, choices=Second.choices, blank=True, default=Second.NOBODY
    )
    second_for = models.CharField(
        "second yes for", max_length=10, choices=Scope.choices, default=Scope.SENSITIVE
    )
    expires_after_s = models.PositiveIntegerField(
        "seconds until a question expires", null=True, blank=True
    )
    note = models.CharField(max_length=300, blank=True, help_text="Why this rule exists.")

    class Meta:
        ordering = ["family", "surface", "tool"]
        constraints = [
            models.UniqueConstraint(
                fields=["family", "surface", "tool"], name="approval_rules_one_per_node"
            ),
            models.CheckConstraint(
                condition=models.Q(expires_after_s=None)
                | models.Q(expires_after_s__gte=60, expires_after_s__lte=86_400),
                name="approval_rules_expire_within_a_day",
            ),
        ]

    def __str__(self) -> str:
        parts = (self.family, self.surface, self.tool)
        return " / ".join(part or "all" for part in parts) if any(parts) else "every tool"


class UnattendedAllowance(Stamped):
    """A tool that one trigger may use in its own runs without a person's yes.

    A schedule or webhook is a member's automation, and is named by its row: two members may call
    theirs alike, and neither gains by the other's. A mail trigger is named by its own name.
    """

    class Trigger(models.TextChoices):
        SCHEDULE = Run.Trigger.SCHEDULE.value, "A schedule"
        WEBHOOK = Run.Trigger.WEBHOOK.value, "A webhook"
        MAIL = Run.Trigger.MAIL.value, "A mail"

    trigger = models.CharField(max_length=10, choices=Trigger.choices)
    automation = models.ForeignKey(
        Automation,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="allowances",
        help_text="The schedule or webhook.",
    )
    name = models.CharField(max_length=120, blank=True, help_text="The mail trigger.")
    tool = models.CharField(max_length=64)

    class Meta:
        ordering = ["trigger", "name", "tool"]
        constraints = [
            models.UniqueConstraint(
                fields=["trigger", "automation", "name", "tool"],
                nulls_distinct=False,
                name="unattended_allowed_once",
            ),
            models.CheckConstraint(
                condition=models.Q(trigger="mail", automation=None) & ~models.Q(name="")
                | ~models.Q(trigger="mail") & models.Q(automation__isnull=False, name=""),
                name="unattended_names_its_trigger",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool} for {self.trigger} {self.named}"

    @property
    def named(self) -> str:
        """What the trigger is called."""
        return self.name if self.automation is None else self.automation.name

    def clean(self) -> None:
        """Refuse what names no trigger, or another kind of one."""
        if self.trigger == self.Trigger.MAIL:
            if self.automation is not None or not self.name:
                raise ValidationError({"name": "A mail trigger is named here, and nothing else."})
            return
        if self.name:
            raise ValidationError({"name": "Only a mail trigger is named here."})
        if self.automation is None or self.automation.trigger != self.trigger:
            raise ValidationError({"automation": "Choose an automation that this trigger starts."})


class TriggeredRun(models.Model):
    """Which named mail trigger started a run; one of an automation carries its automation."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="triggered")
    name = models.CharField(max_length=120)

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.name
