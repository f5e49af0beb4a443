"""How does a member see, take and delete the files of a workspace?"""

from __future__ import annotations

import uuid

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.views import MemberView
from apps.core.api.downloads import GivenAsItIs, as_download
from apps.sandbox.api.serializers import (
    WorkspaceContentQuerySerializer,
    WorkspaceFileSerializer,
    WorkspaceSerializer,
)
from apps.sandbox.keeping import delete_workspace, files_of, stored_file, workspace_state


class WorkspaceView(MemberView):
    """The member's own workspace in a room."""

    @extend_schema(operation_id="workspace_read", responses=WorkspaceSerializer)
    def get(self, request: Request, room_id: uuid.UUID) -> Response:
        """Show how much it holds, and whether a call works in it."""
        self.query()
        state = workspace_state(user=self.member, room_id=room_id)
        return Response(WorkspaceSerializer(state).data)

    @extend_schema(operation_id="workspace_delete", responses={204: None})
    def delete(self, request: Request, room_id: uuid.UUID) -> Response:
        """Delete it with everything that is remembered of it, unless a call works in it."""
        self.query()
        delete_workspace(user=self.member, room_id=room_id)
        return Response(status=status.HTTP_204_NO_CONTENT)


class WorkspaceFilesView(MemberView):
    """The files of the member's own workspace in a room."""

    @extend_schema(
        operation_id="workspace_files_list", responses=WorkspaceFileSerializer(many=True)
    )
    def get(self, request: Request, room_id: uuid.UUID) -> Response:
        """List them in the order of their paths."""
        self.query()
        rows = files_of(user=self.member, room_id=room_id)
        return self.page(rows, WorkspaceFileSerializer, order="path")


class WorkspaceContentView(MemberView):
    """What is in a file."""

    content_negotiation_class = GivenAsItIs

    @extend_schema(
        operation_id="workspace_content_read",
        parameters=[WorkspaceContentQuerySerializer],
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, room_id: uuid.UUID) -> HttpResponseBase:
        """Hand out the bytes of one file, to its owner alone."""
        path = self.query(WorkspaceContentQuerySerializer)["path"]
        file = stored_file(user=self.member, room_id=room_id, path=path)
        return as_download(request._request, file)
