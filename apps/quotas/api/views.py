"""How much have I used?"""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.views import MemberView
from apps.quotas.api.serializers import UsageSerializer
from apps.quotas.selectors import usage_of


class UsageView(MemberView):
    """The member's own use of what is limited."""

    @extend_schema(operation_id="usage", responses=UsageSerializer)
    def get(self, request: Request) -> Response:
        """Return what the member has used today and this month, and how much that may be."""
        self.query()
        return Response(UsageSerializer({"usage": usage_of(self.member)}).data)
