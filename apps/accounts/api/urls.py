"""Where do programs sign in?"""

from __future__ import annotations

from django.urls import path

from apps.accounts.api.views import MeView, TokenDetailView, TokensView, TokenView

urlpatterns = [
    path("auth/token", TokenView.as_view()),
    path("auth/me", MeView.as_view()),
    path("auth/tokens", TokensView.as_view()),
    path("auth/tokens/<slug:token>", TokenDetailView.as_view()),
]
