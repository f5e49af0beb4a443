"""What do requests and answers about rooms look like?"""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.api.serializers import PersonSerializer
from apps.core.api.serializers import StrictSerializer, TextField
from apps.rooms.models import Participant

MAX_EVENTS = 500


class NewRoomSerializer(StrictSerializer):
    """A room to open."""

    name = TextField(max_length=120)


class InvitationSerializer(StrictSerializer):
    """Whom to bring in."""

    username = TextField(max_length=150)


class EventsQuerySerializer(StrictSerializer):
    """Which events."""

    after = serializers.IntegerField(
        min_value=0,
        max_value=2**62,
        default=0,
        help_text="The position behind which to start.",
    )
    limit = serializers.IntegerField(min_value=1, max_value=MAX_EVENTS, default=200)


class ParticipantSerializer(serializers.Serializer):
    """A member's place in a room."""

    id = serializers.IntegerField(source="user_id")
    username = serializers.CharField(source="user.username")
    name = serializers.CharField(source="user.name")
    role = serializers.ChoiceField(choices=Participant.Role.choices)
    joined_at = serializers.DateTimeField()


class RoomSerializer(serializers.Serializer):
    """A room."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    closed = serializers.SerializerMethodField()
    position = serializers.IntegerField(help_text="The position of its last event.")
    created_by = PersonSerializer()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()

    def get_closed(self, room: object) -> bool:
        """Say whether the room takes nothing new."""
        return getattr(room, "closed_at", None) is not None


class RoomDetailSerializer(RoomSerializer):
    """A room with everyone in it."""

    participants = serializers.SerializerMethodField()

    @extend_schema_field(ParticipantSerializer(many=True))
    def get_participants(self, room: object) -> list[dict[str, object]]:
        """List who takes part now."""
        return list(ParticipantSerializer(self.context["participants"], many=True).data)


class EventSerializer(serializers.Serializer):
    """A durable fact in a room."""

    type = serializers.CharField()
    position = serializers.IntegerField()
    kind = serializers.CharField()
    actor = serializers.CharField()
    at = serializers.DateTimeField()
    data = serializers.JSONField()  # type: ignore[assignment]  # a field of that name is meant


class EventsSerializer(serializers.Serializer):
    """The next events of a room, and how far it has come."""

    results = EventSerializer(many=True)
    position = serializers.IntegerField(help_text="The position of the room's last event.")
