"""Which calls wait for another system, and how does that system prove that it was asked?"""

from __future__ import annotations

from django.db import models

from apps.core.models import Stamped
from apps.runs.models import Call


class Pause(Stamped):
    """A wait token of one call, of which only the hash is kept, and what became of it.

    It is made before the tool runs, so that an answer may come before the tool has said that it
    waits; such an answer is kept until then.
    """

    class State(models.TextChoices):
        GIVEN = "given", "Given to the tool"
        WAITING = "waiting", "Waiting"
        ANSWERED = "answered", "Answered"
        EXPIRED = "expired", "Expired"
        CLOSED = "closed", "Closed"

    call = models.OneToOneField(Call, on_delete=models.CASCADE, related_name="pause")
    token_hash = models.CharField(max_length=64, unique=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.GIVEN)
    expires_at = models.DateTimeField()
    # An answer that came before the tool said that it waits; the call's result afterwards.
    early = models.JSONField(null=True, blank=True)
    early_blob = models.CharField(max_length=71, blank=True)
    answer_digest = models.CharField(max_length=71, blank=True)
    answered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        default_permissions = ("view",)
        indexes = [
            models.Index(
                fields=["expires_at"],
                condition=models.Q(state__in=("given", "waiting")),
                name="pauses_open",
            )
        ]

    def __str__(self) -> str:
        return f"pause {self.state}"
