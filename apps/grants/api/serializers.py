"""What do requests and answers about grants look like?"""

from __future__ import annotations

from rest_framework import serializers

from apps.accounts.api.serializers import PersonSerializer
from apps.core.api.serializers import StrictSerializer, TextField


class NewGrantSerializer(StrictSerializer):
    """One exact tool of one exact version."""

    ref = TextField(max_length=130)
    tool = TextField(max_length=64)


class GrantSerializer(serializers.Serializer):
    """A tool that an agent was given."""

    tool = serializers.CharField(source="tool_name")
    package = serializers.CharField(source="version.package.name")
    ref = serializers.CharField(source="version.ref")
    usable = serializers.BooleanField(
        help_text="False while the package is switched off or has no active version."
    )
    granted_by = PersonSerializer()
    created_at = serializers.DateTimeField()
