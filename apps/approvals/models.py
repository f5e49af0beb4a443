"""Who said yes to what? Requests, decisions and the receipts that are spent once."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from apps.core.models import Stamped
from apps.runs.models import Call


class ApprovalRequest(Stamped):
    """A question put to the member for whom the run works, bound to the exact call."""

    class State(models.TextChoices):
        PENDING = "pending", "Waiting"
        APPROVED = "approved", "Approved"
        DENIED = "denied", "Denied"
        EXPIRED = "expired", "Expired"
        WITHDRAWN = "withdrawn", "Withdrawn"

    call = models.OneToOneField(Call, on_delete=models.CASCADE, related_name="approval")
    decider = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    tool = models.CharField(max_length=64)
    arguments_digest = models.CharField(max_length=71)
    descriptor_digest = models.CharField(max_length=71)
    why = models.CharField(max_length=300, blank=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.PENDING)
    expires_at = models.DateTimeField()
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    comment = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["-created_at"]
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["decider", "state", "-created_at"], name="approvals_of_decider"),
            models.Index(
                fields=["expires_at"], condition=models.Q(state="pending"), name="approvals_pending"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.state}"


class Receipt(Stamped):
    """Proof of one approval, spent by one conditional update in the consuming transaction."""

    request = models.OneToOneField(
        ApprovalRequest, on_delete=models.CASCADE, related_name="receipt"
    )
    call = models.OneToOneField(Call, on_delete=models.CASCADE, related_name="receipt")
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    tool = models.CharField(max_length=64)
    arguments_digest = models.CharField(max_length=71)
    descriptor_digest = models.CharField(max_length=71)
    expires_at = models.DateTimeField()
    spent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"receipt for {self.tool}"
