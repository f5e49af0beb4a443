"""What do requests and answers about calls and approvals look like?"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.api.serializers import PersonSerializer
from apps.approvals.models import ApprovalRequest
from apps.boundary.senders import BOUND, PLAIN
from apps.core.api.serializers import StrictSerializer, TextField
from apps.domain.tooling import CallState, Outcome
from apps.runs.api.serializers import AgentCardSerializer
from apps.runs.bodies import arguments_of, projection_of
from apps.runs.models import Call
from apps.runs.waits import WaitsFor, waits_for

CALL_STATES = [state.value for state in CallState]
TOKEN_TYPES = [PLAIN, BOUND]
WAITS = [waits.value for waits in WaitsFor]
OUTCOMES = [outcome.value for outcome in Outcome]


class CallSerializer(serializers.Serializer):
    """A call as everyone in its room sees it."""

    id = serializers.UUIDField()
    run = serializers.UUIDField(source="run_id")
    tool = serializers.CharField()
    title = serializers.CharField()
    effect = serializers.CharField()
    state = serializers.ChoiceField(choices=CALL_STATES)
    outcome = serializers.ChoiceField(choices=OUTCOMES, allow_blank=True)
    reason = serializers.CharField()
    waits_for = serializers.SerializerMethodField()
    approval = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField()
    dispatched_at = serializers.DateTimeField(allow_null=True)
    settled_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(serializers.ChoiceField(choices=WAITS, allow_blank=True))
    def get_waits_for(self, call: Call) -> str:
        """Say who has to do something before the call goes on; empty where nobody has."""
        return waits_for(call) or ""

    def get_approval(self, call: Call) -> str | None:
        """Name the question that was asked about the call, if one was."""
        request: ApprovalRequest | None = getattr(call, "approval", None)
        return None if request is None else str(request.pk)


class CallDetailSerializer(CallSerializer):
    """The same; arguments and result only for the member for whom the run works."""

    agent = AgentCardSerializer(source="run.agent")
    member = PersonSerializer(source="run.member")
    rule = serializers.CharField()
    arguments_digest = serializers.SerializerMethodField()
    arguments = serializers.SerializerMethodField()
    projection = serializers.SerializerMethodField()

    def get_arguments_digest(self, call: Call) -> str | None:
        """Return the digest likewise: short arguments could be guessed from it."""
        return call.arguments_digest if self.context["whole"] else None

    @extend_schema_field({"type": "object", "nullable": True, "additionalProperties": {}})
    def get_arguments(self, call: Call) -> dict[str, Any] | None:
        """Return the exact arguments, or null for everybody but the run's member."""
        return arguments_of(call) if self.context["whole"] else None

    @extend_schema_field({"type": "object", "nullable": True, "additionalProperties": {}})
    def get_projection(self, call: Call) -> dict[str, Any] | None:
        """Return what the model was told, or null for everybody but the run's member."""
        return projection_of(call) if self.context["whole"] else None


class StartedRunSerializer(serializers.Serializer):
    """A run of another runtime, with the token that is shown in this answer only."""

    run = serializers.UUIDField(source="run.pk")
    token = serializers.CharField(allow_null=True)
    token_type = serializers.ChoiceField(choices=TOKEN_TYPES)
    expires_at = serializers.DateTimeField()
    catalog = serializers.DictField(source="run.catalog")
    catalog_digest = serializers.CharField(source="run.catalog_digest")


class RunTokenSerializer(serializers.Serializer):
    """A run's new token, shown in this answer only."""

    run = serializers.UUIDField(source="run.pk")
    token = serializers.CharField()
    token_type = serializers.ChoiceField(choices=TOKEN_TYPES)
    expires_at = serializers.DateTimeField()


class NewRunSerializer(StrictSerializer):
    """Which agent the other runtime speaks for."""

    agent = TextField(max_length=40)
