"""What has been admitted, for programs?"""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.views import MemberView
from apps.packages import selectors
from apps.packages.api.serializers import PackageDetailSerializer, PackageSerializer


class PackagesView(MemberView):
    """Everything that has been admitted."""

    @extend_schema(operation_id="packages_list", responses=PackageSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List packages with their active version and its tools."""
        self.query()
        return self.page(selectors.packages_for(self.member), PackageSerializer, order="name")


class PackageView(MemberView):
    """One package."""

    @extend_schema(operation_id="packages_read", responses=PackageDetailSerializer)
    def get(self, request: Request, name: str) -> Response:
        """Show a package with its versions and their tools."""
        package = selectors.package_named(name=name, member=self.member)
        return Response(PackageDetailSerializer(package).data)
