"""What is remembered of a workspace outside it, where nothing that runs in it can reach?"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from apps.core.models import Blob, Stamped
from apps.rooms.models import Room
from apps.runs.models import Call, Run
from apps.sandbox.querysets import WorkspaceQuerySet


class Workspace(Stamped):
    """The files of one member in one room; whatever is remembered of them hangs on it."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    room = models.ForeignKey(Room, on_delete=models.CASCADE, related_name="workspaces")
    revision = models.PositiveBigIntegerField(default=0)
    idle_digest = models.CharField(max_length=64, blank=True)
    idle_times = models.PositiveSmallIntegerField(default=0)
    files_count = models.PositiveIntegerField(default=0)
    files_bytes = models.PositiveBigIntegerField(default=0)

    objects = WorkspaceQuerySet.as_manager()

    class Meta:
        default_permissions = ("view",)
        ordering = ["-updated_at"]
        constraints = [
            models.UniqueConstraint(fields=["owner", "room"], name="workspaces_one_per_member")
        ]
        indexes = [models.Index(fields=["-updated_at", "id"], name="workspaces_by_use")]

    def __str__(self) -> str:
        return f"workspace of {self.owner_id} in {self.room_id}"


class WorkspaceFile(models.Model):
    """A file of a workspace. Its bytes lie in a blob, so they are on every node and on none."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="files")
    path = models.CharField(max_length=1024)
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    size = models.PositiveIntegerField()
    executable = models.BooleanField(default=False)
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        default_permissions = ()
        ordering = ["path"]
        constraints = [
            models.UniqueConstraint(fields=["workspace", "path"], name="workspace_files_one_path")
        ]

    def __str__(self) -> str:
        return self.path


class Lease(models.Model):
    """Who works in a workspace now, until when, and on which node.

    The fence only grows, so whoever held it before can write nothing more. `kernel_node` names the
    node on which a program of the workspace lives on between calls, if one does.
    """

    workspace = models.OneToOneField(Workspace, on_delete=models.CASCADE, primary_key=True)
    fence = models.PositiveBigIntegerField(default=0)
    call = models.ForeignKey(
        Call, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    node = models.CharField(max_length=120, blank=True)
    kernel_node = models.CharField(max_length=120, blank=True)
    taken_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(
                fields=["expires_at"],
                condition=models.Q(expires_at__isnull=False),
                name="workspace_leases_held",
            )
        ]

    def __str__(self) -> str:
        return f"lease {self.fence} of {self.workspace_id}"


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


class Kernel(models.Model):
    """A program of a workspace that lives on between calls: where, and which one.

    It outlives its workspace for as long as it takes to end it. `generation` is empty while a cell
    is under way, and stays so where nobody heard what became of that.
    """

    workspace = models.ForeignKey(
        Workspace, on_delete=models.SET_NULL, null=True, related_name="kernels"
    )
    language = models.CharField(max_length=10)
    # Empty where it lives nowhere any more, and the next cell has to hear why.
    node = models.CharField(max_length=120, blank=True)
    # Under which name the supervisor of that node knows it, and whose it is.
    key = models.CharField(max_length=128)
    holder = models.CharField(max_length=128)
    generation = models.CharField(max_length=64, blank=True)
    surroundings = models.CharField(max_length=64)
    # The files that are shared with it, each with its digest, as they were when it was started.
    shared = models.JSONField(default=dict)
    # Since when it is to end, because a person is waited for.
    released_at = models.DateTimeField(null=True, blank=True)
    # Since when its node has been asked for it in vain; empty once it answers.
    asked_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(db_default=Now())
    used_at = models.DateTimeField(db_default=Now())

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "language"], name="kernels_one_per_language"
            )
        ]
        indexes = [
            models.Index(
                fields=["used_at"],
                condition=models.Q(workspace=None)
                | models.Q(released_at__isnull=False) & ~models.Q(node=""),
                name="kernels_to_end",
            )
        ]

    def __str__(self) -> str:
        return f"{self.language} kernel on {self.node}"


class ToolSession(models.Model):
    """A program that a package declares, living beside the tools of one run that name it.

    One that ended by itself stays ended for the rest of its run. One that was ended for the sake of
    the run is said to the next call, and started afresh by the one after.
    """

    class State(models.TextChoices):
        OPEN = "open", "Open"
        ENDED = "ended", "Ended"
        CLOSED = "closed", "Closed"
        FAILED = "failed", "Not cleaned up"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="tool_sessions")
    name = models.CharField(max_length=200)
    node = models.CharField(max_length=120)
    generation = models.CharField(max_length=64, blank=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.OPEN)
    sentence = models.CharField(max_length=300, blank=True)
    # Since when it is to end although its run goes on.
    ending_at = models.DateTimeField(null=True, blank=True)
    # Since when its node has been asked for it in vain; empty once it answers.
    asked_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(db_default=Now())

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["run", "name"], name="tool_sessions_one_per_run")
        ]
        indexes = [
            models.Index(
                fields=["started_at"],
                condition=~models.Q(state="closed"),
                name="tool_sessions_open",
            )
        ]

    def __str__(self) -> str:
        return f"session {self.name} of {self.run_id}"
