"""Where do programs propose packages?"""

from __future__ import annotations

from django.urls import path

from apps.proposals.api.views import (
    ProposalSharesView,
    ProposalShareView,
    ProposalsView,
    ProposalView,
    SubmitView,
    TestDetailView,
    TestsView,
    TestView,
)

urlpatterns = [
    path("proposals", ProposalsView.as_view()),
    path("proposals/<uuid:proposal>", ProposalView.as_view()),
    path("proposals/<uuid:proposal>/shares", ProposalSharesView.as_view()),
    path("proposals/<uuid:proposal>/shares/<username:username>", ProposalShareView.as_view()),
    path("proposals/<uuid:proposal>/submit", SubmitView.as_view()),
    path("proposals/<uuid:proposal>/test", TestView.as_view()),
    path("proposals/<uuid:proposal>/tests", TestsView.as_view()),
    path("proposals/<uuid:proposal>/tests/<uuid:test>", TestDetailView.as_view()),
]
