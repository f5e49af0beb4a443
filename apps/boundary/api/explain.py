"""Why may an agent call a tool, or why not, for whoever asks from outside?"""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.serializers import PersonSerializer
from apps.accounts.api.views import MemberView
from apps.boundary.explaining import explain_call
from apps.core.api.serializers import StrictSerializer, TextField
from apps.domain.policy import Fate, Finding


class ExplainQuerySerializer(StrictSerializer):
    """Which call."""

    tool = TextField(max_length=64)
    agent = TextField(max_length=40, required=False, default="")
    room = serializers.UUIDField(required=False)
    member = TextField(
        max_length=150,
        required=False,
        default="",
        help_text="Whose run it would be; only administrators name somebody else.",
    )
    automation = serializers.UUIDField(
        required=False,
        help_text="What would start the run, in place of agent, room and member.",
    )


class RuleAnswerSerializer(serializers.Serializer):
    """What one rule says."""

    rule = serializers.CharField()
    question = serializers.CharField()
    finding = serializers.ChoiceField(choices=[finding.value for finding in Finding])
    says = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_null=True)


class ExplainedSerializer(serializers.Serializer):
    """What would become of a call, and every rule's own answer."""

    agent = serializers.CharField(source="agent.slug")
    room = serializers.UUIDField(source="room.pk")
    tool = serializers.CharField(source="name")
    member = PersonSerializer()
    automation = serializers.UUIDField(source="automation.pk", allow_null=True, default=None)
    verdict = serializers.ChoiceField(
        choices=[fate.value for fate in Fate], source="explanation.comes_to"
    )
    decided_by = serializers.CharField(source="explanation.decided_by")
    says = serializers.CharField(allow_blank=True, source="explanation.says")
    reason = serializers.CharField(allow_null=True, source="explanation.reason")
    rules = RuleAnswerSerializer(source="explanation.answers", many=True)


class ExplainView(MemberView):
    """The reasons behind a decision that nobody has to take."""

    @extend_schema(
        operation_id="explain", parameters=[ExplainQuerySerializer], responses=ExplainedSerializer
    )
    def get(self, request: Request) -> Response:
        """Say what would become of a call as things stand, and which rule decides; change nothing.

        Members ask about themselves, in rooms that they take part in, and about their automations;
        administrators about anybody's.
        """
        asked = self.query(ExplainQuerySerializer)
        explained = explain_call(
            asker=self.member,
            tool_name=asked["tool"],
            agent_slug=asked["agent"],
            room_id=asked.get("room"),
            username=asked["member"],
            automation_id=asked.get("automation"),
        )
        return Response(ExplainedSerializer(explained).data)
