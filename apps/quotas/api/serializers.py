"""What does a member see of their own use?"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class UseSerializer(serializers.Serializer[Any]):
    """What was used of one unit in one period."""

    unit = serializers.CharField(help_text="running, calls, tokens, or money in millionths")
    period = serializers.CharField(help_text="now, day or month, in UTC")
    used = serializers.IntegerField()
    held = serializers.IntegerField(help_text="Held for what is under way.")
    limit = serializers.IntegerField(allow_null=True, help_text="Null where there is none.")
    renews_at = serializers.DateTimeField(allow_null=True)


class UsageSerializer(serializers.Serializer[Any]):
    """What a member has used."""

    usage = UseSerializer(many=True)
