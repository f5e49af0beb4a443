"""Where are artifacts?"""

from __future__ import annotations

from django.urls import path

from apps.artifacts.api.views import (
    ArtifactContentView,
    ArtifactSharesView,
    ArtifactShareView,
    ArtifactsView,
    ArtifactVersionsView,
    ArtifactVersionView,
    ArtifactView,
)

urlpatterns = [
    path("artifacts", ArtifactsView.as_view()),
    path("artifacts/<uuid:artifact_id>", ArtifactView.as_view()),
    path("artifacts/<uuid:artifact_id>/shares", ArtifactSharesView.as_view()),
    path("artifacts/<uuid:artifact_id>/shares/<username:username>", ArtifactShareView.as_view()),
    path("artifacts/<uuid:artifact_id>/versions", ArtifactVersionsView.as_view()),
    path("artifacts/<uuid:artifact_id>/versions/<number:number>", ArtifactVersionView.as_view()),
    path(
        "artifacts/<uuid:artifact_id>/versions/<number:number>/content",
        ArtifactContentView.as_view(),
    ),
]
