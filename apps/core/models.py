"""What do all tables share, and where do large bodies lie?"""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models.functions import Now


class Stamped(models.Model):
    """A row with an unguessable id and the times of its making and last change."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True

    @property
    def key(self) -> str:
        """Name this row in audit rows and events, as `kind:id`."""
        return f"{self._meta.model_name}:{self.pk}"


class Blob(models.Model):
    """An immutable body, named by the digest of its bytes."""

    digest = models.CharField(max_length=71, primary_key=True)
    size = models.PositiveIntegerField()
    content = models.BinaryField()
    touched_at = models.DateTimeField(db_default=Now(), db_index=True)

    def __str__(self) -> str:
        return self.digest


class IdempotencyKey(models.Model):
    """The remembered answer to one creation request, so that a repeat changes nothing."""

    owner = models.CharField(max_length=80)
    route = models.CharField(max_length=200)
    value = models.CharField(max_length=200)
    request_digest = models.CharField(max_length=71)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.JSONField(null=True)
    created_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "route", "value"], name="idempotency_keys_one_answer"
            )
        ]

    def __str__(self) -> str:
        return f"{self.owner} {self.route} {self.value}"
