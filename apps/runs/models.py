"""What is an agent doing for whom? Runs, their claim and fence, their journal and calls."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from apps.agents.models import Agent
from apps.core.models import Stamped
from apps.domain.tooling import CallState, Outcome
from apps.rooms.models import Room
from apps.runs.querysets import CallQuerySet, RunQuerySet


class Seat(models.Model):
    """An agent's place in a room."""

    room = models.ForeignKey(Room, on_delete=models.CASCADE, related_name="seats")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="seats")
    added_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["room", "agent"], name="seats_one_each")]

    def __str__(self) -> str:
        return f"{self.agent_id} in {self.room_id}"


class Caused(models.Model):
    """What started something: a member, or a grant of theirs in the revision that it then had."""

    class Trigger(models.TextChoices):
        MEMBER = "member", "A member"
        SCHEDULE = "schedule", "A schedule"
        WEBHOOK = "webhook", "A webhook"
        EVENT = "event", "An event"
        MAIL = "mail", "A mail"
        SERVICE = "service", "A service"

    trigger = models.CharField(max_length=10, choices=Trigger.choices, default=Trigger.MEMBER)
    # Not a foreign key: grants are kept above, and what has ended outlives its grant.
    automation_id = models.UUIDField(null=True, blank=True)
    automation_revision = models.PositiveIntegerField(null=True, blank=True)
    authority_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


def _whole_cause(name: str) -> models.CheckConstraint:
    nothing = models.Q(automation_id=None, automation_revision=None, authority_until=None)
    everything = models.Q(
        automation_id__isnull=False,
        automation_revision__isnull=False,
        authority_until__isnull=False,
    )
    return models.CheckConstraint(condition=nothing | everything, name=name)


class Run(Caused, Stamped):
    """One turn of an agent for a member in a room.

    A worker holds a run by its *claim*; each claim raises the *fence*. Whoever writes for a run
    locks this row first and compares the fence, so a worker that was overtaken can write nothing.
    """

    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        PARKED = "parked", "Waiting"
        FINISHED = "finished", "Finished"

    class Outcome(models.TextChoices):
        COMPLETED = "completed", "Completed"
        FAILED = "failed", "Failed"
        STOPPED = "stopped", "Stopped"

    class Runtime(models.TextChoices):
        KAIZEN = "kaizen", "Kaizen"
        EXTERNAL = "external", "Another runtime"

    room = models.ForeignKey(Room, on_delete=models.CASCADE, related_name="runs")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="runs")
    member = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    runtime = models.CharField(max_length=10, choices=Runtime.choices, default=Runtime.KAIZEN)
    parent = models.ForeignKey(
        "self", on_delete=models.CASCADE, null=True, blank=True, related_name="children"
    )
    parent_call = models.OneToOneField(
        "Call", on_delete=models.CASCADE, null=True, blank=True, related_name="child"
    )
    depth = models.PositiveSmallIntegerField(default=0)
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED)
    outcome = models.CharField(max_length=10, choices=Outcome.choices, blank=True)
    explanation = models.CharField(max_length=500, blank=True)

    fence = models.PositiveBigIntegerField(default=0)
    claimed_by = models.CharField(max_length=120, blank=True)
    claim_expires_at = models.DateTimeField(null=True, blank=True)
    stop_requested_at = models.DateTimeField(null=True, blank=True)
    stop_requested_by = models.CharField(max_length=120, blank=True)

    catalog = models.JSONField(null=True, blank=True)
    catalog_digest = models.CharField(max_length=71, blank=True)
    # Narrower than the agent's own; null narrows nothing. Frozen when the run starts.
    ceiling = models.JSONField(null=True, blank=True)
    selection = models.JSONField(null=True, blank=True)
    policy = models.JSONField(default=dict, blank=True)
    token_hash = models.CharField(max_length=64, blank=True, db_index=True)
    token_expires_at = models.DateTimeField(null=True, blank=True)
    # The thumbprint of the key whose holder alone may use the token; empty where any holder may.
    token_key = models.CharField(max_length=43, blank=True)

    provider_failures = models.PositiveSmallIntegerField(default=0)
    breaks = models.PositiveSmallIntegerField(default=0)
    retry_at = models.DateTimeField(null=True, blank=True)
    deadline_at = models.DateTimeField()
    budget_s = models.PositiveIntegerField(null=True, blank=True)
    spent_ms = models.PositiveBigIntegerField(default=0)
    lessons = models.JSONField(default=dict, blank=True)
    correlation_id = models.CharField(max_length=64)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["room", "agent"],
                # A child run has no seat: it works for its parent's call.
                condition=~models.Q(state="finished")
                & models.Q(runtime="kaizen", parent__isnull=True),
                name="runs_one_active_per_seat",
            ),
            models.CheckConstraint(
                condition=models.Q(parent=None, parent_call=None, depth=0)
                | models.Q(parent__isnull=False, parent_call__isnull=False, depth__gt=0),
                name="runs_child_of_a_call",
            ),
            _whole_cause("runs_whole_cause"),
        ]
        indexes = [
            models.Index(
                fields=["state", "claim_expires_at"],
                condition=~models.Q(state="finished"),
                name="runs_open",
            ),
            models.Index(fields=["room", "-created_at"], name="runs_of_room"),
            models.Index(fields=["-created_at", "-id"], name="runs_newest"),
            models.Index(
                fields=["automation_id"],
                condition=models.Q(automation_id__isnull=False) & ~models.Q(state="finished"),
                name="runs_of_automation",
            ),
        ]

    def __str__(self) -> str:
        return f"run {self.pk}"

    @property
    def unattended(self) -> bool:
        """Whether nobody asked for this run by hand, so nobody may be watching it."""
        return self.trigger != self.Trigger.MEMBER


class RunInput(Caused):
    """A member's words that wait for an agent's next run, or started one."""

    room = models.ForeignKey(Room, on_delete=models.CASCADE, related_name="+")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    member = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    text = models.TextField()
    # What came along from outside: data for the model, and never the member's words.
    outside = models.TextField(blank=True, default="")
    position = models.PositiveBigIntegerField()
    steer = models.BooleanField(default=False)
    # What the server itself routes the run to: a tool, and the artifact that it is about.
    routed = models.JSONField(default=dict, blank=True)
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, null=True, blank=True, related_name="inputs"
    )
    correlation_id = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(
                fields=["room", "agent", "id"],
                condition=models.Q(run=None),
                name="run_inputs_waiting",
            )
        ]
        constraints = [_whole_cause("run_inputs_whole_cause")]

    def __str__(self) -> str:
        return f"input {self.pk}"


class JournalEntry(models.Model):
    """One step of the ordered truth of a run: what rebuilds it from rows alone, after days."""

    class Kind(models.TextChoices):
        INPUT = "input", "What the member asked"
        ASSISTANT = "assistant", "What the model answered"
        NOTE = "note", "What the engine decided"
        COMPACTION = "compaction", "What stands for older steps"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="journal")
    sequence = models.PositiveIntegerField()
    kind = models.CharField(max_length=12, choices=Kind.choices)
    body = models.JSONField(null=True)
    blob_digest = models.CharField(max_length=71, blank=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["sequence"]
        constraints = [
            models.UniqueConstraint(fields=["run", "sequence"], name="journal_one_place")
        ]

    def __str__(self) -> str:
        return f"{self.sequence} {self.kind}"


class Call(Stamped):
    """One proposed use of a tool. It settles exactly once."""

    State = CallState
    Outcome = Outcome

    class Domain(models.TextChoices):
        TOOL = "tool", "The tool"
        CALLER = "caller", "The caller"
        BOUNDARY = "boundary", "The boundary"
        DEPENDENCY = "dependency", "A dependency"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="calls")
    # The call whose program asked for this one; a model's own calls have none.
    parent = models.ForeignKey(
        "self", on_delete=models.CASCADE, null=True, blank=True, related_name="inner"
    )
    step = models.PositiveIntegerField()
    place = models.PositiveSmallIntegerField()
    proposal_id = models.CharField(max_length=200)
    tool = models.CharField(max_length=64)
    title = models.CharField(max_length=160)
    effect = models.CharField(max_length=10, blank=True)
    capability = models.CharField(max_length=40, blank=True)
    binding = models.CharField(max_length=120, blank=True)
    arguments = models.JSONField(null=True)
    arguments_blob = models.CharField(max_length=71, blank=True)
    arguments_digest = models.CharField(max_length=71)
    descriptor_digest = models.CharField(max_length=71, blank=True)
    # The arguments that the deployment set and no model is told of.
    pinned = models.JSONField(default=list, blank=True)

    state = models.CharField(
        max_length=12,
        choices=[(state.value, state.value) for state in CallState],
        default=CallState.PROPOSED.value,
    )
    needs_receipt = models.BooleanField(default=False)
    outcome = models.CharField(
        max_length=12, choices=[(o.value, o.value) for o in Outcome], blank=True
    )
    reason = models.CharField(max_length=40, blank=True)
    domain = models.CharField(max_length=12, choices=Domain.choices, blank=True)
    non_substitutable = models.BooleanField(default=False)
    rule = models.CharField(max_length=60, blank=True)
    projection = models.JSONField(null=True)
    projection_blob = models.CharField(max_length=71, blank=True)
    # Images of the result that the run's model may look at: digest, kind and size, never a byte.
    images = models.JSONField(default=list, blank=True)

    attempts = models.PositiveSmallIntegerField(default=0)
    executor = models.CharField(max_length=120, blank=True)
    executor_expires_at = models.DateTimeField(null=True, blank=True)
    dispatched_at = models.DateTimeField(null=True, blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)

    objects = CallQuerySet.as_manager()

    class Meta:
        ordering = ["run", "step", "place"]
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["run", "step", "place"], name="calls_one_place"),
            models.UniqueConstraint(fields=["run", "proposal_id"], name="calls_one_proposal"),
            models.CheckConstraint(
                condition=models.Q(state="settled", settled_at__isnull=False)
                & ~models.Q(outcome="")
                | ~models.Q(state="settled") & models.Q(settled_at=None, outcome=""),
                name="calls_settled_with_outcome",
            ),
        ]
        indexes = [
            models.Index(
                fields=["state", "executor_expires_at"],
                condition=~models.Q(state="settled"),
                name="calls_open",
            ),
            models.Index(fields=["-created_at", "-id"], name="calls_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.state}"
