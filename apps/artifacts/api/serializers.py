"""What do requests and answers about artifacts look like?"""

from __future__ import annotations

from rest_framework import serializers

from apps.accounts.api.serializers import PersonSerializer
from apps.artifacts.models import Artifact, ArtifactVersion
from apps.artifacts.selectors import body_of
from apps.core.api.serializers import StrictSerializer


class ArtifactQuerySerializer(StrictSerializer):
    """Which artifacts."""

    room = serializers.UUIDField(required=False)


class ArtifactSerializer(serializers.Serializer):
    """An artifact without its text."""

    id = serializers.UUIDField()
    room = serializers.UUIDField(source="room_id")
    title = serializers.CharField()
    kind = serializers.ChoiceField(choices=Artifact.Kind.choices)
    language = serializers.CharField()
    head = serializers.IntegerField(help_text="The number of the newest version.")
    owner = PersonSerializer()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class ArtifactVersionSerializer(serializers.Serializer):
    """A version without its text."""

    number = serializers.IntegerField()
    title = serializers.CharField()
    digest = serializers.CharField(source="blob_id")
    size = serializers.IntegerField(help_text="In bytes, of UTF-8 where it is text.")
    characters = serializers.IntegerField(help_text="0 for a file.")
    media_type = serializers.CharField(help_text="What the bytes of a file are.")
    author = PersonSerializer()
    agent_name = serializers.CharField()
    run = serializers.UUIDField(source="run_id", allow_null=True)
    call = serializers.UUIDField(source="call_id", allow_null=True)
    created_at = serializers.DateTimeField()


class ArtifactVersionDetailSerializer(ArtifactVersionSerializer):
    """A version with its text."""

    artifact = serializers.UUIDField(source="artifact_id")
    kind = serializers.CharField(source="artifact.kind")
    language = serializers.CharField(source="artifact.language")
    body = serializers.SerializerMethodField()

    def get_body(self, version: ArtifactVersion) -> str | None:
        """Return the whole text; a file has none, and is downloaded."""
        return None if version.artifact.kind == Artifact.Kind.FILE else body_of(version)
