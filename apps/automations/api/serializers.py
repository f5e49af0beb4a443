"""What do requests and answers about automations look like?"""

from __future__ import annotations

from rest_framework import serializers

from apps.automations.models import Automation
from apps.automations.services import MAX_NAME, MAX_WORDS
from apps.core.api.serializers import FlagField, StrictSerializer, TextField, WholeNumberField
from apps.runs.api.serializers import AgentCardSerializer


class AutomationQuerySerializer(StrictSerializer):
    """Which automations."""

    room = serializers.UUIDField(required=False)
    trigger = serializers.ChoiceField(choices=Automation.Trigger.choices, required=False)
    state = serializers.ChoiceField(choices=Automation.State.choices, required=False)


class NewAutomationSerializer(StrictSerializer):
    """An automation to make; `schedule` has five cron fields, read in `time_zone`."""

    name = TextField(max_length=MAX_NAME)
    agent = TextField(max_length=40)
    room = serializers.UUIDField()
    trigger = TextField(max_length=10)
    words = TextField(max_length=MAX_WORDS)
    expires_at = serializers.DateTimeField()
    schedule = TextField(max_length=120, required=False, allow_blank=True)
    time_zone = TextField(max_length=64, required=False)


class ChangedAutomationSerializer(StrictSerializer):
    """What to change; `revision` is the one that the writer saw."""

    revision = WholeNumberField(required=False, min_value=1)
    name = TextField(max_length=MAX_NAME, required=False)
    words = TextField(max_length=MAX_WORDS, required=False)
    schedule = TextField(max_length=120, required=False, allow_blank=True)
    time_zone = TextField(max_length=64, required=False)
    expires_at = serializers.DateTimeField(required=False)
    enabled = FlagField(required=False)


class AutomationSerializer(serializers.Serializer):
    """An automation as its member sees it."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    agent = AgentCardSerializer()
    room = serializers.UUIDField(source="room_id")
    trigger = serializers.ChoiceField(choices=Automation.Trigger.choices)
    words = serializers.CharField()
    schedule = serializers.CharField()
    time_zone = serializers.CharField()
    state = serializers.ChoiceField(choices=Automation.State.choices)
    enabled = serializers.BooleanField()
    revision = serializers.IntegerField()
    expires_at = serializers.DateTimeField()
    revoked_at = serializers.DateTimeField(allow_null=True)
    next_due_at = serializers.DateTimeField(allow_null=True)
    last_tried_at = serializers.DateTimeField(allow_null=True)
    last_result = serializers.ChoiceField(choices=Automation.Result.choices, allow_blank=True)
    last_explanation = serializers.CharField()
    last_run = serializers.UUIDField(allow_null=True)
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class GrantedSerializer(serializers.Serializer):
    """An automation with the token of its webhook, which is shown in this answer only."""

    automation = AutomationSerializer()
    token = serializers.CharField(allow_null=True)


class StartedSerializer(serializers.Serializer):
    """What became of a start: the run, or its place behind the agent's other work."""

    run = serializers.SerializerMethodField()
    queued = serializers.BooleanField()
    place = serializers.IntegerField(help_text="How many come first, this one included.")

    def get_run(self, started: object) -> str | None:
        """Return the run's id, or null while the start waits."""
        run = getattr(started, "run", None)
        return None if run is None else str(run.pk)
