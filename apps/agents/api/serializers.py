"""What do requests and answers about agents look like?"""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.accounts.api.serializers import PersonSerializer
from apps.accounts.models import User
from apps.agents.services import Role
from apps.core.api.serializers import (
    FlagField,
    StrictSerializer,
    TextField,
    WholeNumberField,
)
from apps.domain.tooling import Capability

_CAPABILITIES = [capability.value for capability in Capability]
AGENT_ROLES = [role.value for role in Role]


class CapabilitiesField(serializers.ListField):
    """A list of capabilities; the service says which words there are."""

    child = TextField(max_length=40)

    def __init__(self, *, required: bool = True) -> None:
        super().__init__(required=required, max_length=50)


class NewAgentSerializer(StrictSerializer):
    """An agent to make."""

    slug = TextField(max_length=40)
    name = TextField(max_length=80)
    description = TextField(max_length=300, required=False, allow_blank=True)
    persona = TextField(max_length=20_000, required=False, allow_blank=True)
    ceiling = CapabilitiesField(required=False)
    model_name = TextField(max_length=120, required=False, allow_blank=True)


class ChangedAgentSerializer(StrictSerializer):
    """What to change; `revision` is the one that the writer saw."""

    revision = WholeNumberField(required=False, min_value=1)
    name = TextField(max_length=80, required=False)
    description = TextField(max_length=300, required=False, allow_blank=True)
    persona = TextField(max_length=20_000, required=False, allow_blank=True)
    ceiling = CapabilitiesField(required=False)
    model_name = TextField(max_length=120, required=False, allow_blank=True)
    parallel_tool_calls = FlagField(required=False)
    sees_images = FlagField(required=False)
    inactivity_s = WholeNumberField(required=False, allow_null=True)
    budget_s = WholeNumberField(required=False, allow_null=True)
    context_tokens = WholeNumberField(required=False, allow_null=True)
    enabled = FlagField(required=False)


class ShareSerializer(StrictSerializer):
    """With whom, and as what: a guest uses it, a collaborator changes and shares it as well."""

    username = TextField(max_length=150)
    role = serializers.ChoiceField(choices=AGENT_ROLES, required=False, default=Role.GUEST.value)


class AgentSharedWithSerializer(PersonSerializer):
    """Somebody with whom an agent is shared."""

    role = serializers.SerializerMethodField()

    @extend_schema_field(serializers.ChoiceField(choices=AGENT_ROLES))
    def get_role(self, person: User) -> str:
        """Say as what."""
        manages = getattr(person, "more", False)
        return Role.COLLABORATOR.value if manages else Role.GUEST.value


class AgentSerializer(serializers.Serializer):
    """An agent as everyone who may use it sees it."""

    slug = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    ceiling = serializers.ListField(child=serializers.ChoiceField(choices=_CAPABILITIES))
    model_name = serializers.CharField()
    parallel_tool_calls = serializers.BooleanField(
        help_text="Whether reads may run beside each other, where the server lets them."
    )
    sees_images = serializers.BooleanField(
        help_text="Whether its model is given the images of results, and not only their digests."
    )
    inactivity_s = serializers.IntegerField(allow_null=True)
    budget_s = serializers.IntegerField(allow_null=True)
    context_tokens = serializers.IntegerField(allow_null=True)
    enabled = serializers.BooleanField()
    revision = serializers.IntegerField()
    owner = PersonSerializer()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class AgentDetailSerializer(AgentSerializer):
    """The same with its persona, which only those who manage the agent see."""

    persona = serializers.SerializerMethodField()
    managed = serializers.SerializerMethodField()

    def get_persona(self, agent: object) -> str | None:
        """Return the persona, or null for members who only use the agent."""
        return getattr(agent, "persona", "") if self.context["managed"] else None

    def get_managed(self, agent: object) -> bool:
        """Say whether the member who asks manages the agent."""
        return bool(self.context["managed"])
