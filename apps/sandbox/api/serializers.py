"""What do requests and answers about workspaces look like?"""

from __future__ import annotations

from rest_framework import serializers

from apps.core.api.serializers import StrictSerializer


class WorkspaceSerializer(serializers.Serializer):
    """One's own workspace in a room. One that was never used has no time."""

    files = serializers.IntegerField(source="files_count")
    bytes = serializers.IntegerField(source="files_bytes")
    most_files = serializers.IntegerField()
    most_bytes = serializers.IntegerField()
    busy = serializers.BooleanField(help_text="Whether a call works in it now.")
    updated_at = serializers.DateTimeField(allow_null=True)


class WorkspaceFileSerializer(serializers.Serializer):
    """A file without its bytes."""

    path = serializers.CharField()
    size = serializers.IntegerField(help_text="In bytes.")
    executable = serializers.BooleanField()
    digest = serializers.CharField(source="blob_id")
    changed_at = serializers.DateTimeField()


class WorkspaceContentQuerySerializer(StrictSerializer):
    """Which file."""

    path = serializers.CharField(max_length=1024, trim_whitespace=False)
