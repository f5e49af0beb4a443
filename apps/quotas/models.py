"""How much may be used, how much is, and what is held for something that is under way?"""

from __future__ import annotations

from enum import StrEnum

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from apps.agents.models import Agent
from apps.core.models import Stamped
from apps.domain import quotas
from apps.runs.models import Call, Run


def _choices(words: type[StrEnum]) -> list[tuple[str, str]]:
    return [(word.value, word.value) for word in words]


class Quota(models.Model):
    """A limit: of one member or agent, or of each that has none of its own."""

    subject = models.CharField(max_length=6, choices=_choices(quotas.Subject))
    member = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="Leave empty for every member without a limit of their own.",
    )
    agent = models.ForeignKey(
        Agent,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="Leave empty for every agent without a limit of its own.",
    )
    unit = models.CharField(max_length=8, choices=_choices(quotas.Unit))
    period = models.CharField(max_length=6, choices=_choices(quotas.Period))
    most = models.PositiveBigIntegerField(help_text="Money in millionths: 5,000,000 stands for 5.")
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["subject", "unit", "period"]
        constraints = [
            models.UniqueConstraint(
                fields=["subject", "member", "agent", "unit", "period"],
                name="quotas_one_limit",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=models.Q(subject="member", agent=None)
                | models.Q(subject="agent", member=None),
                name="quotas_of_one_subject",
            ),
            models.CheckConstraint(
                condition=models.Q(unit="running", period="now")
                | ~models.Q(unit="running") & ~models.Q(period="now"),
                name="quotas_period_fits_unit",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subject} {self.unit} {self.period}"


class Price(models.Model):
    """What a model's tokens cost, in millionths of a unit of money per million tokens."""

    model_name = models.CharField(
        max_length=120,
        unique=True,
        blank=True,
        help_text="Leave empty for every model without a price of its own.",
    )
    input_price = models.PositiveBigIntegerField(
        help_text="Millionths per million tokens read: 3,000,000 stands for 3 per million."
    )
    output_price = models.PositiveBigIntegerField(
        help_text="Millionths per million tokens written."
    )

    class Meta:
        ordering = ["model_name"]

    def __str__(self) -> str:
        return self.model_name or "every other model"


class Meter(models.Model):
    """What one subject has used, and holds, of one unit in one span of time."""

    subject = models.CharField(max_length=6, choices=_choices(quotas.Subject))
    subject_id = models.CharField(max_length=36)
    unit = models.CharField(max_length=8, choices=_choices(quotas.Unit))
    span = models.CharField(max_length=10)
    used = models.BigIntegerField(default=0)
    held = models.BigIntegerField(default=0)
    updated_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["subject", "subject_id", "unit", "span"], name="quotas_one_meter"
            ),
            models.CheckConstraint(
                # What is held is given back by the same statement that adds: its rows may be
                # negative before they meet the meter, so they cannot be checked here.
                condition=models.Q(used__gte=0),
                name="quotas_use_only_grows",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subject} {self.subject_id} {self.unit} {self.span}"


class Reservation(Stamped):
    """What is held for one call outside or one step with a model, until it has ended."""

    class Kind(models.TextChoices):
        CALL = "call", "A call"
        MODEL = "model", "A step with a model"

    class State(models.TextChoices):
        HELD = "held", "Held"
        SETTLED = "settled", "Settled"
        STANDS = "stands", "Stands as reserved"
        RELEASED = "released", "Released"

    kind = models.CharField(max_length=6, choices=Kind.choices)
    state = models.CharField(max_length=8, choices=State.choices, default=State.HELD)
    run = models.ForeignKey(Run, on_delete=models.SET_NULL, null=True, related_name="+")
    call = models.OneToOneField(
        Call, on_delete=models.SET_NULL, null=True, blank=True, related_name="reservation"
    )
    fence = models.PositiveBigIntegerField(default=0)
    member = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    model_name = models.CharField(max_length=120, blank=True)
    reserved_at = models.DateTimeField()
    reserved = models.JSONField()
    used = models.JSONField(null=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    correlation_id = models.CharField(max_length=64)

    class Meta:
        ordering = ["-created_at"]
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state="held", closed_at=None, used=None)
                | ~models.Q(state="held") & models.Q(closed_at__isnull=False, used__isnull=False),
                name="quotas_reservation_closed_with_use",
            )
        ]
        indexes = [
            models.Index(
                fields=["created_at"], condition=models.Q(state="held"), name="reservations_held"
            ),
            models.Index(fields=["closed_at"], name="reservations_closed"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.state}"
