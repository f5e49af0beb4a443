"""What do requests and answers about approvals look like?"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.api.serializers import PersonSerializer
from apps.approvals.models import ApprovalRequest, ModeChoice
from apps.boundary.approval_sheet import ApprovalSheet
from apps.core.api.serializers import FlagField, StrictSerializer, TextField
from apps.runs.api.serializers import AgentCardSerializer

_DIGEST = r"^sha256:[0-9a-f]{64}$"


class ApprovalQuerySerializer(StrictSerializer):
    """Which approvals."""

    state = serializers.ChoiceField(choices=["pending", "others", "decided"], required=False)
    agent = TextField(max_length=40, required=False)


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
    decider = PersonSerializer()
    second = serializers.ChoiceField(choices=ApprovalRequest.Second.choices)
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


class AskedSerializer(serializers.Serializer):
    """One of the people who have to say yes."""

    part = serializers.ChoiceField(choices=["first", "second"])
    who = serializers.CharField()
    person = PersonSerializer(allow_null=True)
    said = serializers.BooleanField(allow_null=True)
    at = serializers.DateTimeField(allow_null=True)


class MaySerializer(serializers.Serializer):
    """What the reader may do with a question."""

    answer = serializers.BooleanField(source="may_answer")
    edit = serializers.BooleanField(source="may_edit")
    remember = serializers.BooleanField(source="may_remember")


class ApprovalDetailSerializer(ApprovalSerializer):
    """Everything that the decider needs, the exact arguments among it."""

    arguments_digest = serializers.CharField()
    descriptor_digest = serializers.CharField()
    arguments = serializers.SerializerMethodField()
    pinned = serializers.SerializerMethodField()
    about = serializers.SerializerMethodField()
    people = serializers.SerializerMethodField()
    may = serializers.SerializerMethodField()
    asks = serializers.ChoiceField(source="mode", choices=ApprovalRequest.Mode.choices)
    replaces = serializers.UUIDField(source="replaces_id", allow_null=True)
    replaced_by = serializers.SerializerMethodField()

    @extend_schema_field({"type": "object", "additionalProperties": {}})
    def get_arguments(self, request: ApprovalRequest) -> dict[str, Any]:
        """Return the exact arguments that the decision is about."""
        sheet: ApprovalSheet = self.context["sheet"]
        return sheet.arguments

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_pinned(self, request: ApprovalRequest) -> list[str]:
        """Name the arguments that the deployment set itself."""
        return list(self.context["sheet"].pinned)

    @extend_schema_field(AskedSerializer(many=True))
    def get_people(self, request: ApprovalRequest) -> list[Any]:
        """Say who has to agree, and who has."""
        return list(AskedSerializer(self.context["sheet"].people, many=True).data)

    @extend_schema_field(MaySerializer)
    def get_may(self, request: ApprovalRequest) -> dict[str, Any]:
        """Say what the reader may do."""
        return dict(MaySerializer(self.context["sheet"]).data)

    @extend_schema_field(serializers.UUIDField(allow_null=True))
    def get_replaced_by(self, request: ApprovalRequest) -> str | None:
        """Name the request whose arguments took the place of these."""
        other: ApprovalRequest | None = getattr(request, "replaced_by", None)
        return None if other is None else str(other.pk)

    @extend_schema_field(AboutSerializer)
    def get_about(self, request: ApprovalRequest) -> dict[str, Any]:
        """Answer the four questions."""
        return dict(AboutSerializer(self.context["sheet"]).data)


class ApproveSerializer(StrictSerializer):
    """A yes to exactly the arguments with this digest.

    With `remember` the same call passes from now on in its room, or asks again the next time;
    without it, what asks on first use is not asked again.
    """

    arguments_digest = serializers.RegexField(_DIGEST)
    remember = FlagField(required=False)


class EditSerializer(StrictSerializer):
    """Other arguments in place of those with this digest, and a yes to them."""

    arguments_digest = serializers.RegexField(_DIGEST)
    arguments = serializers.DictField(child=serializers.JSONField(allow_null=True))


class EditedSerializer(serializers.Serializer):
    """The question about the new call; null where it needed nobody's yes."""

    approval = ApprovalSerializer(allow_null=True)
    call = serializers.UUIDField()


class DenySerializer(StrictSerializer):
    """A no, and why, which the model is told."""

    reason = TextField(max_length=500, required=False, allow_blank=True, default="")


class ModeSerializer(serializers.Serializer):
    """How a member wants to be asked: in general, or by one agent in one room."""

    mode = serializers.ChoiceField(choices=ModeChoice.Mode.choices)
    room = serializers.UUIDField(source="room_id", allow_null=True)
    agent = AgentCardSerializer(allow_null=True)


class ModePlaceSerializer(StrictSerializer):
    """Whose choice: none of the two for the general one, both for an agent in a room."""

    room = serializers.UUIDField(required=False)
    agent = TextField(max_length=40, required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse half a place."""
        if ("room" in attrs) != ("agent" in attrs):
            missing = "room" if "agent" in attrs else "agent"
            raise serializers.ValidationError({missing: ["Name a room and an agent, or neither."]})
        return attrs


class ChosenModeSerializer(ModePlaceSerializer):
    """A choice."""

    mode = serializers.ChoiceField(choices=ModeChoice.Mode.choices)


class RememberedSerializer(serializers.Serializer):
    """An exact call that a member allowed once for all in a room."""

    id = serializers.UUIDField()
    tool = serializers.CharField()
    room = serializers.UUIDField(source="room_id")
    arguments_digest = serializers.CharField()
    created_at = serializers.DateTimeField()
