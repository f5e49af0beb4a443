"""What do requests and answers about accounts look like?"""

from __future__ import annotations

from rest_framework import serializers

from apps.core.api.serializers import StrictSerializer, TextField


class SignInSerializer(StrictSerializer):
    """Name and password."""

    username = TextField(max_length=150)
    password = TextField(max_length=4096, style={"input_type": "password"}, write_only=True)


class MadeTokenSerializer(serializers.Serializer):
    """A new token, in the only answer that ever shows it."""

    token = serializers.CharField()
    expiry = serializers.DateTimeField()


class TokenSerializer(serializers.Serializer):
    """A token as its member recognises it: by its first characters."""

    id = serializers.CharField(source="token_key")
    created_at = serializers.DateTimeField(source="created")
    expiry = serializers.DateTimeField()


class MeSerializer(serializers.Serializer):
    """The signed-in member."""

    id = serializers.IntegerField()
    username = serializers.CharField()
    name = serializers.CharField()
    is_administrator = serializers.BooleanField(source="is_staff")


class PersonSerializer(serializers.Serializer):
    """A member as others see them."""

    id = serializers.IntegerField()
    username = serializers.CharField()
    name = serializers.CharField()
