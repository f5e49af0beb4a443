"""What does Kaizen hold for others? Secrets, who may use them, and accounts at other systems."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.core.models import Stamped
from apps.packages.models import Package


class Secret(Stamped):
    """A value that requests carry and that nobody reads back."""

    name = models.CharField(max_length=64, unique=True)
    note = models.CharField(max_length=200, blank=True)
    sealed = models.BinaryField()
    set_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    set_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        permissions = [("manage_secret", "Set and grant secrets")]

    def __str__(self) -> str:
        return self.name


class SecretGrant(Stamped):
    """What a package means by a name: one secret, until the grant is taken back."""

    package = models.ForeignKey(Package, on_delete=models.CASCADE, related_name="secret_grants")
    need = models.CharField(max_length=200)
    secret = models.ForeignKey(Secret, on_delete=models.PROTECT, related_name="grants")
    granted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        ordering = ["package__name", "need"]
        constraints = [
            models.UniqueConstraint(fields=["package", "need"], name="secret_grants_one_meaning")
        ]

    def __str__(self) -> str:
        return f"{self.package.name}: {self.need}"


class Connection(Stamped):
    """An account at another system: a member's own, or the company's where it names no owner."""

    app = models.CharField(max_length=80)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="Empty: the company's.",
    )
    permissions = models.JSONField(default=list, blank=True)
    sealed = models.BinaryField()
    expires_at = models.DateTimeField(null=True, blank=True)
    set_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    set_at = models.DateTimeField()

    class Meta:
        ordering = ["app"]
        permissions = [("manage_connection", "Set connections to other systems")]
        constraints = [
            models.UniqueConstraint(fields=["app", "owner"], name="connections_one_of_a_person"),
            models.UniqueConstraint(
                fields=["app"], condition=Q(owner=None), name="connections_one_of_the_company"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.app} of {self.owner.name if self.owner else 'the company'}"
