"""What do requests and answers about runs look like?"""

from __future__ import annotations

from rest_framework import serializers

from apps.accounts.api.serializers import PersonSerializer
from apps.core.api.serializers import StrictSerializer, TextField
from apps.runs.models import Run


class AgentCardSerializer(serializers.Serializer):
    """An agent as a room shows it."""

    slug = serializers.CharField()
    name = serializers.CharField()


class RunQuerySerializer(StrictSerializer):
    """Which runs."""

    room = serializers.UUIDField(required=False)
    state = serializers.ChoiceField(choices=Run.State.choices, required=False)


class RunSerializer(serializers.Serializer):
    """A run as everyone in its room sees it."""

    id = serializers.UUIDField()
    room = serializers.UUIDField(source="room_id")
    agent = AgentCardSerializer()
    member = PersonSerializer()
    runtime = serializers.ChoiceField(choices=Run.Runtime.choices)
    trigger = serializers.ChoiceField(choices=Run.Trigger.choices)
    automation = serializers.UUIDField(source="automation_id", allow_null=True)
    state = serializers.ChoiceField(choices=Run.State.choices)
    outcome = serializers.ChoiceField(choices=Run.Outcome.choices, allow_blank=True)
    explanation = serializers.CharField()
    stop_requested = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)

    def get_stop_requested(self, run: object) -> bool:
        """Say whether somebody has asked the run to stop."""
        return getattr(run, "stop_requested_at", None) is not None


class NewSeatSerializer(StrictSerializer):
    """Which agent takes a seat."""

    agent = TextField(max_length=40)


class SeatSerializer(serializers.Serializer):
    """An agent's seat in a room."""

    slug = serializers.CharField(source="agent.slug")
    name = serializers.CharField(source="agent.name")
    created_at = serializers.DateTimeField()
