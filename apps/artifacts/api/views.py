"""How are artifacts read from outside?"""

from __future__ import annotations

import uuid
from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.serializers import PersonSerializer
from apps.accounts.api.views import MemberView
from apps.artifacts.api.serializers import (
    ArtifactQuerySerializer,
    ArtifactSerializer,
    ArtifactShareSerializer,
    ArtifactVersionDetailSerializer,
    ArtifactVersionSerializer,
    NewVersionSerializer,
    SharedWithSerializer,
)
from apps.artifacts.roles import share_artifact, shares_of, unshare_artifact, write_version
from apps.artifacts.selectors import (
    artifacts_for,
    stored_file,
    versions_of,
    visible_artifact,
    visible_version,
)
from apps.core.api.downloads import GivenAsItIs, as_download
from apps.core.api.schema import IDEMPOTENCY


class ArtifactsView(MemberView):
    """The artifacts that the member may read."""

    @extend_schema(
        operation_id="artifacts_list",
        parameters=[ArtifactQuerySerializer],
        responses=ArtifactSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """List one's own artifacts, those of one's rooms and shared ones, or those of one room."""
        query = self.query(ArtifactQuerySerializer)
        rows = artifacts_for(self.member, room_id=query.get("room"), in_person=True)
        return self.page(rows, ArtifactSerializer)


class ArtifactView(MemberView):
    """One artifact."""

    @extend_schema(operation_id="artifacts_read", responses=ArtifactSerializer)
    def get(self, request: Request, artifact_id: uuid.UUID) -> Response:
        """Show an artifact without its text."""
        self.query()
        artifact = visible_artifact(artifact_id=artifact_id, user=self.member, in_person=True)
        return Response(ArtifactSerializer(artifact).data)


class ArtifactVersionsView(MemberView):
    """The versions of an artifact."""

    # The JSON of a body can be several times its characters.
    max_body_bytes = 1024 * 1024

    @extend_schema(
        operation_id="artifact_versions_list", responses=ArtifactVersionSerializer(many=True)
    )
    def get(self, request: Request, artifact_id: uuid.UUID) -> Response:
        """List the versions of an artifact, newest first."""
        self.query()
        artifact = visible_artifact(artifact_id=artifact_id, user=self.member, in_person=True)
        return self.page(versions_of(artifact), ArtifactVersionSerializer, order="-number")

    @extend_schema(
        operation_id="artifact_versions_write",
        parameters=[IDEMPOTENCY],
        request=NewVersionSerializer,
        responses={201: ArtifactVersionSerializer},
    )
    def post(self, request: Request, artifact_id: uuid.UUID) -> Response:
        """Write a version in person, on top of the one that was read."""
        fields = self.body(NewVersionSerializer)

        def write() -> Any:
            return write_version(
                artifact_id=artifact_id,
                member=self.member,
                expected_version=fields["expected_version"],
                body=fields["body"],
                title=fields.get("title"),
            )

        return self.create(write, ArtifactVersionSerializer)


class ArtifactSharesView(MemberView):
    """With whom an artifact is shared."""

    @extend_schema(operation_id="artifacts_shares", responses=SharedWithSerializer(many=True))
    def get(self, request: Request, artifact_id: uuid.UUID) -> Response:
        """List the readers and collaborators."""
        self.query()
        rows = shares_of(artifact_id=artifact_id, user=self.member)
        return self.page(rows, SharedWithSerializer, order="username")

    @extend_schema(
        operation_id="artifacts_share",
        parameters=[IDEMPOTENCY],
        request=ArtifactShareSerializer,
        responses={201: PersonSerializer},
    )
    def post(self, request: Request, artifact_id: uuid.UUID) -> Response:
        """Let another member read an artifact of one's own, or edit it."""
        fields = self.body(ArtifactShareSerializer)

        def share() -> Any:
            return share_artifact(artifact_id=artifact_id, sharer=self.member, **fields)

        return self.create(share, PersonSerializer)


class ArtifactShareView(MemberView):
    """One member with whom an artifact is shared."""

    @extend_schema(operation_id="artifacts_unshare", responses={204: None})
    def delete(self, request: Request, artifact_id: uuid.UUID, username: str) -> Response:
        """Share it with a member no longer."""
        unshare_artifact(artifact_id=artifact_id, sharer=self.member, username=username)
        return Response(status=status.HTTP_204_NO_CONTENT)


class ArtifactVersionView(MemberView):
    """One version of an artifact."""

    @extend_schema(operation_id="artifact_versions_read", responses=ArtifactVersionDetailSerializer)
    def get(self, request: Request, artifact_id: uuid.UUID, number: int) -> Response:
        """Show one version with its text."""
        self.query()
        version = visible_version(
            artifact_id=artifact_id, number=number, user=self.member, in_person=True
        )
        return Response(ArtifactVersionDetailSerializer(version).data)


class ArtifactContentView(MemberView):
    """The bytes of one version."""

    content_negotiation_class = GivenAsItIs

    @extend_schema(
        operation_id="artifact_versions_content",
        parameters=[
            OpenApiParameter(
                "Range", OpenApiTypes.STR, OpenApiParameter.HEADER,
                description="One range of bytes, such as `bytes=0-1023`.",
            ),
            OpenApiParameter(
                "If-None-Match", OpenApiTypes.STR, OpenApiParameter.HEADER,
                description="The digest in quotes, for an answer only if the bytes are others.",
            ),
        ],
        responses={
            (200, "*/*"): OpenApiTypes.BINARY,
            (206, "*/*"): OpenApiTypes.BINARY,
            304: OpenApiResponse(description="The bytes are those of `If-None-Match`."),
            416: OpenApiResponse(description="The version ends before that range."),
        },
    )  # fmt: skip
    def get(self, request: Request, artifact_id: uuid.UUID, number: int) -> HttpResponseBase:
        """Hand out one version as a file, in its exact bytes; `ETag` is its digest."""
        self.query()
        file = stored_file(artifact_id=artifact_id, number=number, user=self.member, in_person=True)
        return as_download(request._request, file)
