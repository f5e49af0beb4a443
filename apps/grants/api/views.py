"""How are package tools given to agents from outside?"""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.views import MemberView
from apps.agents.selectors import visible_agent
from apps.core.api.schema import IDEMPOTENCY
from apps.grants.api.serializers import GrantSerializer, NewGrantSerializer
from apps.grants.models import ToolGrant
from apps.grants.selectors import grants_of
from apps.grants.services import grant_tool, revoke_tool


class GrantsView(MemberView):
    """The package tools of an agent."""

    @extend_schema(operation_id="grants_list", responses=GrantSerializer(many=True))
    def get(self, request: Request, slug: str) -> Response:
        """List what an agent was given."""
        self.query()
        agent = visible_agent(slug=slug, member=self.member)
        return self.page(grants_of(agent), GrantSerializer, order="tool_name")

    @extend_schema(
        operation_id="grants_create",
        parameters=[IDEMPOTENCY],
        request=NewGrantSerializer,
        responses={201: GrantSerializer},
    )
    def post(self, request: Request, slug: str) -> Response:
        """Give an agent one exact tool of the active version of a package."""
        fields = self.body(NewGrantSerializer)
        agent = visible_agent(slug=slug, member=self.member)

        def give() -> ToolGrant:
            grant = grant_tool(agent_id=agent.pk, granter=self.member, **fields)
            return grants_of(agent).get(pk=grant.pk)

        return self.create(give, GrantSerializer)


class GrantView(MemberView):
    """One package tool of an agent."""

    @extend_schema(operation_id="grants_revoke", responses={204: None})
    def delete(self, request: Request, slug: str, tool: str) -> Response:
        """Take a package tool away from an agent."""
        agent = visible_agent(slug=slug, member=self.member)
        revoke_tool(agent_id=agent.pk, revoker=self.member, tool=tool)
        return Response(status=status.HTTP_204_NO_CONTENT)
