"""How are agents made and looked after from outside?"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.serializers import PersonSerializer
from apps.accounts.api.views import MemberView
from apps.agents.api.serializers import (
    AgentDetailSerializer,
    AgentSerializer,
    AgentSharedWithSerializer,
    ChangedAgentSerializer,
    NewAgentSerializer,
    ShareSerializer,
)
from apps.agents.models import Agent
from apps.agents.selectors import agents_for, may_manage, shares_of, visible_agent
from apps.agents.services import (
    change_agent,
    create_agent,
    disable_agent,
    share_agent,
    unshare_agent,
)
from apps.core.api.schema import IDEMPOTENCY


class AgentsView(MemberView):
    """The agents that the member may use."""

    @extend_schema(operation_id="agents_list", responses=AgentSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List the agents that the member may use or manages."""
        self.query()
        return self.page(agents_for(self.member), AgentSerializer, order="slug")

    @extend_schema(
        operation_id="agents_create",
        parameters=[IDEMPOTENCY],
        request=NewAgentSerializer,
        responses={201: AgentDetailSerializer},
    )
    def post(self, request: Request) -> Response:
        """Make an agent; no approval is needed, for its ceiling and its grants bound it."""
        fields = self.body(NewAgentSerializer)
        return self.create(
            lambda: create_agent(owner=self.member, **fields),
            AgentDetailSerializer,
            context={"managed": True},
        )


class AgentView(MemberView):
    """One agent."""

    @extend_schema(operation_id="agents_read", responses=AgentDetailSerializer)
    def get(self, request: Request, slug: str) -> Response:
        """Show an agent; its persona only to those who manage it."""
        self.query()
        return self._shown(visible_agent(slug=slug, member=self.member))

    @extend_schema(
        operation_id="agents_change",
        request=ChangedAgentSerializer,
        responses=AgentDetailSerializer,
    )
    def patch(self, request: Request, slug: str) -> Response:
        """Change some fields of an agent."""
        fields = self.body(ChangedAgentSerializer)
        agent = visible_agent(slug=slug, member=self.member)
        revision: int | None = fields.pop("revision", None)
        return self._shown(
            change_agent(agent_id=agent.pk, actor=self.member, changes=fields, revision=revision)
        )

    @extend_schema(operation_id="agents_disable", responses={204: None})
    def delete(self, request: Request, slug: str) -> Response:
        """Switch an agent off; its runs and their records stay."""
        agent = visible_agent(slug=slug, member=self.member)
        disable_agent(agent_id=agent.pk, actor=self.member)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _shown(self, agent: Agent) -> Response:
        context = {"managed": may_manage(self.member, agent)}
        return Response(AgentDetailSerializer(agent, context=context).data)


class AgentSharesView(MemberView):
    """Who else may use an agent."""

    @extend_schema(operation_id="agents_shares", responses=AgentSharedWithSerializer(many=True))
    def get(self, request: Request, slug: str) -> Response:
        """List the guests and collaborators."""
        self.query()
        rows = shares_of(slug=slug, member=self.member)
        return self.page(rows, AgentSharedWithSerializer, order="username")

    @extend_schema(
        operation_id="agents_share",
        parameters=[IDEMPOTENCY],
        request=ShareSerializer,
        responses={201: PersonSerializer},
    )
    def post(self, request: Request, slug: str) -> Response:
        """Let another member use the agent."""
        fields = self.body(ShareSerializer)
        agent = visible_agent(slug=slug, member=self.member)

        def share() -> Any:
            return share_agent(agent_id=agent.pk, sharer=self.member, **fields)

        return self.create(share, PersonSerializer)


class AgentShareView(MemberView):
    """One member who may use an agent."""

    @extend_schema(operation_id="agents_unshare", responses={204: None})
    def delete(self, request: Request, slug: str, username: str) -> Response:
        """Let a member use the agent no longer."""
        agent = visible_agent(slug=slug, member=self.member)
        unshare_agent(agent_id=agent.pk, sharer=self.member, username=username)
        return Response(status=status.HTTP_204_NO_CONTENT)
