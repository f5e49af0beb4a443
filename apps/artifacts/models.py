"""What was made? Artifacts, their immutable versions, and drafts that are not shared yet."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from apps.accounts.models import ObjectPermission
from apps.artifacts.querysets import ArtifactQuerySet, DraftQuerySet
from apps.core.models import Blob, Stamped
from apps.rooms.models import Room


class Artifact(Stamped):
    """Something made in a room for its owner. The head moves under this row's lock."""

    class Kind(models.TextChoices):
        TEXT = "text", "Text"
        MARKDOWN = "markdown", "Markdown"
        HTML = "html", "HTML"
        SVG = "svg", "SVG"
        CODE = "code", "Code"
        # Bytes that a program made: kept and handed out as they are, and never edited here.
        FILE = "file", "File"

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    room = models.ForeignKey(Room, on_delete=models.PROTECT, related_name="artifacts")
    title = models.CharField(max_length=200)
    kind = models.CharField(max_length=12, choices=Kind.choices)
    language = models.CharField(max_length=40, blank=True)
    head = models.PositiveIntegerField(default=0)
    # The name under which programs write it; only files have one.
    file_name = models.CharField(max_length=200, blank=True)

    objects = ArtifactQuerySet.as_manager()

    class Meta:
        ordering = ["-updated_at"]
        default_permissions = ("view",)
        permissions = [
            ("read_artifact", "Read the artifact"),
            ("edit_artifact", "Edit the artifact"),
        ]
        indexes = [models.Index(fields=["room", "-updated_at"], name="artifacts_of_room")]
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "room", "file_name"],
                condition=models.Q(kind="file"),
                name="artifacts_one_file_of_a_name",
            ),
            models.CheckConstraint(
                condition=models.Q(kind="file") & ~models.Q(file_name="")
                | ~models.Q(kind="file") & models.Q(file_name=""),
                name="artifacts_files_have_names",
            ),
        ]

    def __str__(self) -> str:
        return self.title


class ArtifactPermission(ObjectPermission):
    """What a member holds on an artifact that its owner shared with them."""

    content_object = models.ForeignKey(Artifact, on_delete=models.CASCADE)


class ArtifactVersion(Stamped):
    """One immutable version: its body is a blob, its provenance the call that wrote it."""

    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    title = models.CharField(max_length=200)
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    size = models.PositiveIntegerField()
    characters = models.PositiveIntegerField()
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    agent_name = models.CharField(max_length=80, blank=True)
    run_id = models.UUIDField(null=True, blank=True)
    call_id = models.UUIDField(null=True, blank=True)
    # Of a file: the name that its call gave it, what its bytes are, and how it can be looked at.
    target = models.CharField(max_length=200, blank=True)
    media_type = models.CharField(max_length=100, blank=True)
    preview = models.ForeignKey(
        Blob, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )

    class Meta:
        ordering = ["-number"]
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["artifact", "number"], name="artifact_versions_one_number"
            ),
            models.UniqueConstraint(
                fields=["call_id", "target"], name="artifact_versions_one_of_a_call"
            ),
        ]
        indexes = [
            models.Index(fields=["artifact", "created_at"], name="artifact_versions_in_time")
        ]

    def __str__(self) -> str:
        return f"{self.title} v{self.number}"


WRITABLE_KINDS = tuple(kind for kind in Artifact.Kind.values if kind != Artifact.Kind.FILE)
"""The kinds that are written as text."""


class Draft(Stamped):
    """An artifact that is written in pieces, its owner's alone until it is finished.

    It is held by one run under that run's fence. Its id becomes the artifact's. A draft whose run
    is over was interrupted; a later run of its owner may go on with it.
    """

    class State(models.TextChoices):
        OPEN = "open", "Open"
        FINISHED = "finished", "Finished"
        DISCARDED = "discarded", "Discarded"

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    room = models.ForeignKey(Room, on_delete=models.PROTECT, related_name="+")
    title = models.CharField(max_length=200)
    kind = models.CharField(max_length=12)
    language = models.CharField(max_length=40, blank=True)
    state = models.CharField(max_length=12, choices=State.choices, default=State.OPEN)
    run_id = models.UUIDField()
    fence = models.PositiveIntegerField()
    sequence = models.PositiveIntegerField(default=0)
    digest = models.CharField(max_length=64)
    characters = models.PositiveIntegerField(default=0)

    objects = DraftQuerySet.as_manager()

    class Meta:
        ordering = ["-updated_at"]
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["run_id"],
                condition=models.Q(state="open"),
                name="artifact_drafts_one_open_of_run",
            )
        ]
        indexes = [
            models.Index(
                fields=["owner", "room", "-updated_at"],
                condition=models.Q(state="open"),
                name="artifact_drafts_open",
            )
        ]

    def __str__(self) -> str:
        return self.title


class DraftPiece(models.Model):
    """One piece of an open draft, with what the draft was called before and after it."""

    draft = models.ForeignKey(Draft, on_delete=models.CASCADE, related_name="pieces")
    sequence = models.PositiveIntegerField()
    prior = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    text = models.TextField()

    class Meta:
        ordering = ["sequence"]
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["draft", "sequence"], name="artifact_draft_pieces_one_sequence"
            )
        ]

    def __str__(self) -> str:
        return f"piece {self.sequence}"
