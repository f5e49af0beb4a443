"""What is under review? Drafts of packages, their files, their tests and their decision."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from apps.accounts.models import ObjectPermission, User
from apps.core.models import Blob, Stamped
from apps.domain.manifests import FORMAT_TITLES
from apps.proposals.querysets import ProposalQuerySet

PINS = "executionPaths"
"""Where in what was found at a test the pins of its programs stand."""


class PackageProposal(Stamped):
    """A reviewed manifest and a file tree, on their way to becoming a package version."""

    class State(models.TextChoices):
        DRAFT = "draft", "Draft"
        SUBMITTED = "submitted", "Waiting for review"
        APPROVED = "approved", "Approved"
        REJECTED = "rejected", "Rejected"
        WITHDRAWN = "withdrawn", "Withdrawn"

    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=80)
    version = models.CharField(max_length=64)
    ref = models.CharField(max_length=130)
    format = models.CharField(max_length=20)
    manifest = models.JSONField()
    artifact_hash = models.CharField(max_length=71)
    contract_digest = models.CharField(max_length=71)
    # The content address of what the package needs of others; empty where it needs nothing.
    dependencies = models.CharField(max_length=64, blank=True)
    revision = models.PositiveIntegerField(default=1)
    # Who changed the draft besides its author; none of them decides on it, whatever they hold now.
    writers = ArrayField(models.BigIntegerField(), default=list, blank=True)
    note = models.CharField(max_length=500, blank=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.DRAFT)
    submitted_at = models.DateTimeField(null=True, blank=True)
    reviewer = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    decision_reason = models.CharField(max_length=1000, blank=True)

    objects = ProposalQuerySet.as_manager()

    class Meta:
        ordering = ["-updated_at"]
        verbose_name = "proposal"
        verbose_name_plural = "review queue"
        default_permissions = ("view",)
        permissions = [
            ("review_packageproposal", "Review package proposals"),
            ("work_on_packageproposal", "Work on a draft"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["author", "ref"],
                condition=models.Q(state__in=["draft", "submitted"]),
                name="proposals_one_open_ref_per_author",
            )
        ]
        indexes = [models.Index(fields=["state", "submitted_at"], name="proposals_queue")]

    def __str__(self) -> str:
        return self.ref

    def was_written_by(self, user: User) -> bool:
        """Say whether a member wrote this, or a part of it."""
        return user.pk == self.author_id or user.pk in self.writers

    @property
    def format_title(self) -> str:
        """What the package holds, in two words."""
        return FORMAT_TITLES.get(self.format, self.format)


class ProposalPermission(ObjectPermission):
    """What a member holds on a proposal."""

    content_object = models.ForeignKey(PackageProposal, on_delete=models.CASCADE)


class ProposalFile(models.Model):
    """One file of a draft's tree; its bytes are a blob."""

    proposal = models.ForeignKey(PackageProposal, on_delete=models.CASCADE, related_name="files")
    path = models.CharField(max_length=255)
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["path"]
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["proposal", "path"], name="proposal_files_one_path")
        ]

    def __str__(self) -> str:
        return self.path


class ProposalTest(Stamped):
    """One run of a draft's own tests in the sandbox.

    A passed test is the receipt of exactly the bytes and the contract that it names: it holds
    while both digests still match the proposal.
    """

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        PASSED = "passed", "Passed"
        FAILED = "failed", "Failed"
        ERROR = "error", "Could not run"

    proposal = models.ForeignKey(PackageProposal, on_delete=models.CASCADE, related_name="tests")
    artifact_hash = models.CharField(max_length=71)
    contract_digest = models.CharField(max_length=71)
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    executor = models.CharField(max_length=120, blank=True)
    executor_expires_at = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    ran = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    runtime = models.CharField(max_length=80, blank=True)
    milliseconds = models.PositiveIntegerField(null=True, blank=True)
    explanation = models.CharField(max_length=500, blank=True)
    output = models.TextField(blank=True)
    # What Pi's loader found in the package, with its version; and what its programs stand on.
    surface = models.JSONField(default=dict, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    correlation_id = models.CharField(max_length=64)
    queued_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-created_at"]
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["proposal"],
                condition=models.Q(state__in=["queued", "running"]),
                name="proposal_tests_one_at_a_time",
            )
        ]

    def __str__(self) -> str:
        return f"test {self.state}"
