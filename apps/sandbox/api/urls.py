"""Where are a member's workspaces?"""

from __future__ import annotations

from django.urls import path

from apps.sandbox.api.views import WorkspaceContentView, WorkspaceFilesView, WorkspaceView

urlpatterns = [
    path("rooms/<uuid:room_id>/workspace", WorkspaceView.as_view()),
    path("rooms/<uuid:room_id>/workspace/files", WorkspaceFilesView.as_view()),
    path("rooms/<uuid:room_id>/workspace/content", WorkspaceContentView.as_view()),
]
