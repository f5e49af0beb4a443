"""What happened? Rows that nobody may change, and the seals that would show it."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class AuditRow(models.Model):
    """One thing that happened: who, what, to which object, and how it ended. Never content.

    Actor and subject are `kind:id` strings, so this table sits below all others. In the database
    the table is partitioned by month on `at`, and a trigger refuses update and delete.
    """

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    actor = models.CharField(max_length=120)
    action = models.CharField(max_length=80)
    subject = models.CharField(max_length=160)
    outcome = models.CharField(max_length=40, blank=True)
    digest = models.CharField(max_length=71, blank=True)
    correlation_id = models.CharField(max_length=64, blank=True)
    detail = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["-id"]
        verbose_name = "audit row"

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.actor} {self.action} {self.subject}"


class AuditSeal(models.Model):
    """A keyed digest over a batch of rows, chained to the seal before it."""

    id = models.BigAutoField(primary_key=True)
    sealed_at = models.DateTimeField()
    rows = models.PositiveIntegerField()
    previous_mac = models.CharField(max_length=64, blank=True)
    mac = models.CharField(max_length=64, unique=True)

    def __str__(self) -> str:
        return f"seal {self.pk} over {self.rows} rows"


class SealedRow(models.Model):
    """Which seal covers a row. A row that commits late is simply taken by the next seal."""

    row_id = models.BigIntegerField(primary_key=True)
    seal = models.ForeignKey(AuditSeal, on_delete=models.PROTECT, related_name="members")

    def __str__(self) -> str:
        return f"{self.row_id} under {self.seal_id}"


class Retention(models.Model):
    """A month that was dropped: which rows went, and a mark over what stayed of their seals.

    `ids` are ranges of row numbers, both ends included; `remainders` are lists of a seal, how many
    of its rows stayed, and their mark. The record itself is keyed and chained like a seal.
    """

    month = models.DateField(unique=True)
    dropped_at = models.DateTimeField()
    rows = models.PositiveBigIntegerField()
    ids = models.JSONField(default=list)
    remainders = models.JSONField(default=list)
    previous_mac = models.CharField(max_length=64, blank=True)
    mac = models.CharField(max_length=64, unique=True)

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.month:%Y-%m}, {self.rows} rows dropped"
