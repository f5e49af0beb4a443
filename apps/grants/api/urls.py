"""Where are grants?"""

from __future__ import annotations

from django.urls import path

from apps.grants.api.views import GrantsView, GrantView

urlpatterns = [
    path("agents/<slug:slug>/grants", GrantsView.as_view()),
    path("agents/<slug:slug>/grants/<tool:tool>", GrantView.as_view()),
]
