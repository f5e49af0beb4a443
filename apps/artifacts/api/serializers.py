"""What do requests and answers about artifacts look like?"""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.api.serializers import PersonSerializer
from apps.accounts.models import User
from apps.artifacts.models import Artifact, ArtifactVersion
from apps.artifacts.roles import Role
from apps.artifacts.selectors import body_of
from apps.core.api.serializers import StrictSerializer, TextField, WholeNumberField

ARTIFACT_ROLES = [role.value for role in Role]


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


class NewVersionSerializer(StrictSerializer):
    """A text that a person puts on top of the version that they read."""

    expected_version = WholeNumberField(min_value=1)
    body = TextField(allow_blank=True, trim_whitespace=False)
    title = TextField(required=False, max_length=200)


class ArtifactShareSerializer(StrictSerializer):
    """With whom, and as what: a reader reads it, a collaborator writes versions of it as well."""

    username = TextField(max_length=150)
    role = serializers.ChoiceField(
        choices=ARTIFACT_ROLES, required=False, default=Role.READER.value
    )


class SharedWithSerializer(PersonSerializer):
    """Somebody with whom an artifact is shared."""

    role = serializers.SerializerMethodField()

    @extend_schema_field(serializers.ChoiceField(choices=ARTIFACT_ROLES))
    def get_role(self, person: User) -> str:
        """Say as what."""
        edits = getattr(person, "more", False)
        return Role.COLLABORATOR.value if edits else Role.READER.value
