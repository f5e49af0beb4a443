"""What do requests and answers about calls and approvals look like?"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.api.serializers import PersonSerializer
from apps.approvals.models import ApprovalRequest
from apps.boundary.approval_sheet import ApprovalSheet
from apps.core.api.serializers import StrictSerializer, TextField
from apps.domain.tooling import CallState, Outcome
from apps.runs.api.serializers import AgentCardSerializer
from apps.runs.bodies import arguments_of, projection_of
from apps.runs.models import Call

CALL_STATES = [state.value for state in CallState]
OUTCOMES = [outcome.value for outcome in Outcome]
_DIGEST = r"^sha256:[0-9a-f]{64}$"


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
    approval = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField()
    dispatched_at = serializers.DateTimeField(allow_null=True)
    settled_at = serializers.DateTimeField(allow_null=True)

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


class ApprovalQuerySerializer(StrictSerializer):
    """Which approvals."""

    state = serializers.ChoiceField(choices=["pending", "decided"], required=False)


class ApprovalSerializer(serializers.Serializer):
    """A question as the list of its decider shows it."""

    id = serializers.UUIDField()
    call = serializers.UUIDField(source="call_id")
    run = serializers.UUIDField(source="call.run_id")
    room = serializers.UUIDField(source="call.run.room_id")
    tool = serializers.CharField()
    title = serializers.CharField(source="call.title")
    effect = serializers.CharField(source="call.effect")
    agent = AgentCardSerializer(source="call.run.agent")
    state = serializers.ChoiceField(choices=ApprovalRequest.State.choices)
    why = serializers.CharField()
    expires_at = serializers.DateTimeField()
    created_at = serializers.DateTimeField()
    decided_at = serializers.DateTimeField(allow_null=True)
    comment = serializers.CharField()


class AboutSerializer(serializers.Serializer):
    """The four answers that come before every yes."""

    where = serializers.CharField(help_text="Where the effect lands.")
    as_whom = serializers.CharField(help_text="In whose name.")
    effect = serializers.CharField(help_text="What it does.")
    undo = serializers.CharField(help_text="Whether it can be taken back.")
    undoable = serializers.BooleanField(help_text="The same as a fact; a read needs no undoing.")
    comes_from = serializers.CharField(help_text="Where the tool comes from.")


class ApprovalDetailSerializer(ApprovalSerializer):
    """Everything that the decider needs, the exact arguments among it."""

    arguments_digest = serializers.CharField()
    descriptor_digest = serializers.CharField()
    arguments = serializers.SerializerMethodField()
    about = serializers.SerializerMethodField()

    @extend_schema_field({"type": "object", "additionalProperties": {}})
    def get_arguments(self, request: ApprovalRequest) -> dict[str, Any]:
        """Return the exact arguments that the decision is about."""
        sheet: ApprovalSheet = self.context["sheet"]
        return sheet.arguments

    @extend_schema_field(AboutSerializer)
    def get_about(self, request: ApprovalRequest) -> dict[str, Any]:
        """Answer the four questions."""
        return dict(AboutSerializer(self.context["sheet"]).data)


class ApproveSerializer(StrictSerializer):
    """A yes to exactly the arguments with this digest."""

    arguments_digest = serializers.RegexField(_DIGEST)


class DenySerializer(StrictSerializer):
    """A no, and why, which the model is told."""

    reason = TextField(max_length=500, required=False, allow_blank=True, default="")


class StartedRunSerializer(serializers.Serializer):
    """A run of another runtime, with the token that is shown in this answer only."""

    run = serializers.UUIDField(source="run.pk")
    token = serializers.CharField(allow_null=True)
    expires_at = serializers.DateTimeField()
    catalog = serializers.DictField(source="run.catalog")
    catalog_digest = serializers.CharField(source="run.catalog_digest")


class NewRunSerializer(StrictSerializer):
    """Which agent the other runtime speaks for."""

    agent = TextField(max_length=40)
