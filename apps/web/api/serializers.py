"""What do requests and answers about a room's life look like?"""

from __future__ import annotations

from rest_framework import serializers

from apps.core.api.serializers import StrictSerializer, TextField
from apps.rooms.api.serializers import EventSerializer
from apps.rooms.models import Participant
from apps.web.services import MAX_TEXT


class ChangeOfSerializer(StrictSerializer):
    """What a message asks to be changed."""

    artifact = serializers.UUIDField(help_text="One of your own texts in this room.")


class NewMessageSerializer(StrictSerializer):
    """Something to say."""

    text = TextField(max_length=MAX_TEXT)
    steer = serializers.BooleanField(
        default=False,
        help_text="Give it to the agent's run that already works for you, at its next step.",
    )
    about = ChangeOfSerializer(
        required=False,
        help_text="Ask the agent for a change of this artifact; it is shown update_artifact first.",
    )


class PostedSerializer(serializers.Serializer):
    """Where a message stands, and what it set going."""

    position = serializers.IntegerField()
    run = serializers.UUIDField(source="run.pk", default=None, allow_null=True)
    queued = serializers.BooleanField(help_text="It waits behind the agent's active run.")
    steers = serializers.BooleanField(help_text="The active run takes it in at its next step.")


class TicketSerializer(serializers.Serializer):
    """A ticket that opens one socket once."""

    ticket = serializers.CharField()
    expires_in = serializers.IntegerField(help_text="Seconds.")


class PresentSerializer(serializers.Serializer):
    """A participant, and whether they are here now."""

    id = serializers.IntegerField()
    username = serializers.CharField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=Participant.Role.choices)
    online = serializers.BooleanField()


class SnapshotSerializer(serializers.Serializer):
    """The present state of a room."""

    participants = PresentSerializer(many=True)
    seats = serializers.ListField(child=serializers.DictField())
    items = EventSerializer(many=True)
    more = serializers.BooleanField(help_text="There are events before these.")
    runs = serializers.ListField(child=serializers.DictField())
    calls = serializers.ListField(child=serializers.DictField())
    approvals = serializers.ListField(child=serializers.DictField())
    artifacts = serializers.ListField(child=serializers.DictField())
    streams = serializers.ListField(child=serializers.DictField())
