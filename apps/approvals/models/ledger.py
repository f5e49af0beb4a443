"""Who said yes to what? Requests, answers, the receipts that are spent once, and what passed."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from apps.core.models import Stamped
from apps.domain.policy.modes import ApprovalMode, Second, Waived
from apps.runs.models import Call, Run


class ApprovalRequest(Stamped):
    """A question put to the member for whom the run works, bound to the exact call."""

    class State(models.TextChoices):
        PENDING = "pending", "Waiting"
        APPROVED = "approved", "Approved"
        DENIED = "denied", "Denied"
        REPLACED = "replaced", "Changed"
        EXPIRED = "expired", "Expired"
        WITHDRAWN = "withdrawn", "Withdrawn"

    class Mode(models.TextChoices):
        FIRST_TIME = ApprovalMode.ASK_FIRST_TIME.value, "On first use"
        EVERY_TIME = ApprovalMode.ASK_EVERY_TIME.value, "Every time"

    class Second(models.TextChoices):
        NOBODY = Second.NOBODY.value, "Nobody else"
        ROOM_OWNER = Second.ROOM_OWNER.value, "The room's owner"
        ADMINISTRATOR = Second.ADMINISTRATOR.value, "An administrator"

    call = models.OneToOneField(Call, on_delete=models.CASCADE, related_name="approval")
    decider = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    tool = models.CharField(max_length=64)
    arguments_digest = models.CharField(max_length=71)
    descriptor_digest = models.CharField(max_length=71)
    # What besides the arguments a yes is bound to: the digest of a preview, or nothing.
    binding = models.CharField(max_length=71, blank=True)
    why = models.CharField(max_length=300, blank=True)
    mode = models.CharField(max_length=20, choices=Mode.choices, default=Mode.EVERY_TIME)
    second = models.CharField(max_length=14, choices=Second.choices, blank=True)
    may_remember = models.BooleanField(default=False)
    # A call whose arguments a person proposed stands in for the one that the model proposed.
    replaces = models.OneToOneField(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="replaced_by"
    )
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
        permissions = (("second_approval", "Can give the second yes to an approval"),)
        indexes = [
            models.Index(fields=["decider", "state", "-created_at"], name="approvals_of_decider"),
            models.Index(
                fields=["expires_at"], condition=models.Q(state="pending"), name="approvals_pending"
            ),
            models.Index(
                fields=["second", "-created_at"],
                condition=~models.Q(second=""),
                name="approvals_of_two",
            ),
            models.Index(fields=["-created_at"], name="approvals_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.state}"


class Answer(models.Model):
    """One person's yes or no to a request; of two that are needed, each is a row."""

    class Part(models.TextChoices):
        FIRST = "first", "The member's"
        SECOND = "second", "The second"

    request = models.ForeignKey(ApprovalRequest, on_delete=models.CASCADE, related_name="answers")
    part = models.CharField(max_length=6, choices=Part.choices)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    yes = models.BooleanField()
    arguments_digest = models.CharField(max_length=71)
    comment = models.CharField(max_length=500, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["at"]
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["request", "by"], name="answers_one_per_person"),
            models.UniqueConstraint(fields=["request", "part"], name="answers_one_per_part"),
        ]

    def __str__(self) -> str:
        return f"{'yes' if self.yes else 'no'} to {self.request_id}"


class Receipt(Stamped):
    """Proof of one approval, spent by one conditional update in the consuming transaction."""

    request = models.OneToOneField(
        ApprovalRequest, on_delete=models.CASCADE, related_name="receipt"
    )
    call = models.OneToOneField(Call, on_delete=models.CASCADE, related_name="receipt")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+")
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    seconded_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    tool = models.CharField(max_length=64)
    arguments_digest = models.CharField(max_length=71)
    descriptor_digest = models.CharField(max_length=71)
    binding = models.CharField(max_length=71, blank=True)
    expires_at = models.DateTimeField()
    spent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"receipt for {self.tool}"


class Waiver(models.Model):
    """A call that would have asked and passed without a question, with the reason why."""

    class Kind(models.TextChoices):
        NEVER_ASK = Waived.NEVER_ASK.value, "The member never wants to be asked"
        FIRST_USE = Waived.FIRST_USE.value, "The member allowed this exact call before"
        ALLOWED_UNATTENDED = Waived.ALLOWED_UNATTENDED.value, "The trigger allows the tool"

    call = models.OneToOneField(Call, on_delete=models.CASCADE, related_name="waiver")
    kind = models.CharField(max_length=20, choices=Kind.choices)
    arguments_digest = models.CharField(max_length=71)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-at"]
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.kind} for {self.call_id}"
