"""What was shown before an operation outside is applied, and was it applied already?"""

from __future__ import annotations

from django.conf import settings
from django.db import models

from apps.core.models import Stamped
from apps.runs.models import Call, Run


class Preview(Stamped):
    """What an operation outside would do, bound to its request and to where it would act.

    Its end stays as a tombstone: a replay of the same digests finds it and applies nothing.
    """

    class State(models.TextChoices):
        SHOWN = "shown", "Shown"
        APPLYING = "applying", "Being applied"
        APPLIED = "applied", "Applied"
        FAILED = "failed", "Failed before anything was done"
        AMBIGUOUS = "ambiguous", "Outcome unknown"

    member = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="previews")
    operation = models.CharField(max_length=200)
    request_digest = models.CharField(max_length=71)
    preview_digest = models.CharField(max_length=71)
    environment_digest = models.CharField(max_length=71)
    # One digest of the three, which a yes is bound to.
    binding = models.CharField(max_length=71)
    state = models.CharField(max_length=10, choices=State.choices, default=State.SHOWN)
    expires_at = models.DateTimeField()
    applied_by = models.OneToOneField(
        Call, on_delete=models.CASCADE, null=True, blank=True, related_name="applies"
    )
    applying_until = models.DateTimeField(null=True, blank=True)
    result = models.JSONField(null=True, blank=True)
    result_blob = models.CharField(max_length=71, blank=True)

    class Meta:
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["run", "binding"], name="previews_one_per_binding")
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.state}"
