"""Which of an agent's tools does a member leave to it in one room, for programs?"""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.views import MemberView
from apps.boundary.choosing import Choice, choice_in
from apps.core.api.serializers import StrictSerializer, TextField
from apps.domain.tooling import Effect
from apps.grants.services import MAX_CHOSEN, choose_tools, keep_all_tools


class NewChoiceSerializer(StrictSerializer):
    """The tools to keep; all others are taken from the agent."""

    tools = serializers.ListField(child=TextField(max_length=64), max_length=MAX_CHOSEN)


class ChosenToolSerializer(serializers.Serializer):
    """A tool that the agent would be offered here, and whether the member leaves it to it."""

    name = serializers.CharField()
    title = serializers.CharField()
    effect = serializers.ChoiceField(choices=[effect.value for effect in Effect])
    kept = serializers.BooleanField()


class ChoiceSerializer(serializers.Serializer):
    """What a member keeps of an agent's tools in a room."""

    narrowed = serializers.BooleanField(help_text="False while the member has chosen nothing.")
    tools = ChosenToolSerializer(many=True)


class SeatToolsView(MemberView):
    """The member's own choice among the tools of an agent in a room."""

    @extend_schema(operation_id="seats_tools_read", responses=ChoiceSerializer)
    def get(self, request: Request, room_id: uuid.UUID, slug: str) -> Response:
        """List what the agent would be offered in runs for this member, and what of it is kept."""
        self.query()
        return self._shown(room_id, slug)

    @extend_schema(
        operation_id="seats_tools_choose", request=NewChoiceSerializer, responses=ChoiceSerializer
    )
    def put(self, request: Request, room_id: uuid.UUID, slug: str) -> Response:
        """Keep only these tools, for runs of this member in this room, from the next call on."""
        fields = self.body(NewChoiceSerializer)
        choose_tools(room_id=room_id, agent_slug=slug, member=self.member, tools=fields["tools"])
        return self._shown(room_id, slug)

    @extend_schema(operation_id="seats_tools_keep_all", responses={204: None})
    def delete(self, request: Request, room_id: uuid.UUID, slug: str) -> Response:
        """Take the choice back."""
        keep_all_tools(room_id=room_id, agent_slug=slug, member=self.member)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _shown(self, room_id: Any, slug: str) -> Response:
        choice: Choice = choice_in(room_id=room_id, agent_slug=slug, member=self.member)
        return Response(ChoiceSerializer(choice).data)
