"""How are artifacts read from outside?"""

from __future__ import annotations

import uuid

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.views import MemberView
from apps.artifacts.api.serializers import (
    ArtifactQuerySerializer,
    ArtifactSerializer,
    ArtifactVersionDetailSerializer,
    ArtifactVersionSerializer,
)
from apps.artifacts.selectors import (
    artifacts_for,
    versions_of,
    visible_artifact,
    visible_version,
)


class ArtifactsView(MemberView):
    """The artifacts that the member may read."""

    @extend_schema(
        operation_id="artifacts_list",
        parameters=[ArtifactQuerySerializer],
        responses=ArtifactSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """List one's own artifacts and those of one's rooms, or those of one room."""
        query = self.query(ArtifactQuerySerializer)
        rows = artifacts_for(self.member, room_id=query.get("room"))
        return self.page(rows, ArtifactSerializer)


class ArtifactView(MemberView):
    """One artifact."""

    @extend_schema(operation_id="artifacts_read", responses=ArtifactSerializer)
    def get(self, request: Request, artifact_id: uuid.UUID) -> Response:
        """Show an artifact without its text."""
        self.query()
        artifact = visible_artifact(artifact_id=artifact_id, user=self.member)
        return Response(ArtifactSerializer(artifact).data)


class ArtifactVersionsView(MemberView):
    """The versions of an artifact."""

    @extend_schema(
        operation_id="artifact_versions_list", responses=ArtifactVersionSerializer(many=True)
    )
    def get(self, request: Request, artifact_id: uuid.UUID) -> Response:
        """List the versions of an artifact, newest first."""
        self.query()
        artifact = visible_artifact(artifact_id=artifact_id, user=self.member)
        return self.page(versions_of(artifact), ArtifactVersionSerializer, order="-number")


class ArtifactVersionView(MemberView):
    """One version of an artifact."""

    @extend_schema(operation_id="artifact_versions_read", responses=ArtifactVersionDetailSerializer)
    def get(self, request: Request, artifact_id: uuid.UUID, number: int) -> Response:
        """Show one version with its text."""
        self.query()
        version = visible_version(artifact_id=artifact_id, number=number, user=self.member)
        return Response(ArtifactVersionDetailSerializer(version).data)
