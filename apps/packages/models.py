"""What has been admitted? Content-addressed packages, their versions and their tools."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from apps.core.models import Blob, Stamped
from apps.domain.manifests import FORMAT_TITLES


class Package(Stamped):
    """A named line of versions, at most one of which is active."""

    name = models.CharField(max_length=80, unique=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    active_version = models.ForeignKey(
        "PackageVersion", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    disabled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]
        default_permissions = ("view",)
        permissions = [("manage_package", "Disable and enable packages")]

    def __str__(self) -> str:
        return self.name


class PackageVersion(Stamped):
    """An admitted, immutable pair of manifest and file tree."""

    package = models.ForeignKey(Package, on_delete=models.PROTECT, related_name="versions")
    ref = models.CharField(max_length=130, unique=True)
    version = models.CharField(max_length=64)
    format = models.CharField(max_length=20)
    manifest = models.JSONField()
    artifact_hash = models.CharField(max_length=71)
    contract_digest = models.CharField(max_length=71)
    # The content address of what the package needs of others; empty where it needs nothing.
    dependencies = models.CharField(max_length=64, blank=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    admitted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        ordering = ["-created_at"]
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.ref

    @property
    def format_title(self) -> str:
        """What the package holds, in two words."""
        return FORMAT_TITLES.get(self.format, self.format)


class PackageFile(models.Model):
    """One file of an admitted tree; its bytes are a blob."""

    version = models.ForeignKey(PackageVersion, on_delete=models.CASCADE, related_name="files")
    path = models.CharField(max_length=255)
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["path"]
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["version", "path"], name="package_files_one_path")
        ]

    def __str__(self) -> str:
        return self.path


class PackageTool(models.Model):
    """One tool of an admitted version, under the name that a model calls it by."""

    version = models.ForeignKey(PackageVersion, on_delete=models.CASCADE, related_name="tools")
    name = models.CharField(max_length=64, db_index=True)
    definition_id = models.CharField(max_length=128)
    entry = models.CharField(max_length=200)
    collaboration_class = models.CharField(max_length=30)
    definition = models.JSONField()

    class Meta:
        ordering = ["name"]
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["version", "name"], name="package_tools_one_name")
        ]

    def __str__(self) -> str:
        return self.name
