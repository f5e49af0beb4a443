"""What is remembered of a workspace outside it, where nothing that runs in it can reach?"""

from __future__ import annotations

from django.conf import settings
from django.db import models

from apps.core.models import Blob, Stamped
from apps.rooms.models import Room
from apps.sandbox.querysets import WorkspaceQuerySet


class Workspace(Stamped):
    """The files of one member in one room, wherever they lie; all memory of them hangs on it."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    room = models.ForeignKey(Room, on_delete=models.CASCADE, related_name="workspaces")
    revision = models.PositiveBigIntegerField(default=0)
    idle_digest = models.CharField(max_length=64, blank=True)
    idle_times = models.PositiveSmallIntegerField(default=0)

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["owner", "room"], name="workspaces_one_per_member")
        ]

    def __str__(self) -> str:
        return f"workspace of {self.owner_id} in {self.room_id}"


class FileSnapshot(models.Model):
    """A whole text of a file, and the lines of it that were shown."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="snapshots")
    path = models.CharField(max_length=1024)
    name = models.CharField(max_length=255)
    tag = models.CharField(max_length=4)
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    size = models.PositiveIntegerField()
    seen = models.JSONField(default=list)
    position = models.PositiveBigIntegerField()

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "path", "position"], name="file_snapshots_one_position"
            ),
            models.UniqueConstraint(
                fields=["workspace", "path", "blob"], name="file_snapshots_one_text"
            ),
        ]
        indexes = [
            models.Index(fields=["workspace", "name", "tag"], name="file_snapshots_by_name"),
        ]

    def __str__(self) -> str:
        return f"{self.path}#{self.tag}"


class Register(models.Model):
    """Lines that were cut under a name."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="registers")
    name = models.CharField(max_length=64)
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="registers_one_per_name")
        ]

    def __str__(self) -> str:
        return f"@{self.name}"
