"""Where are agents?"""

from __future__ import annotations

from django.urls import path

from apps.agents.api.views import AgentSharesView, AgentShareView, AgentsView, AgentView

urlpatterns = [
    path("agents", AgentsView.as_view()),
    path("agents/<slug:slug>", AgentView.as_view()),
    path("agents/<slug:slug>/shares", AgentSharesView.as_view()),
    path("agents/<slug:slug>/shares/<username:username>", AgentShareView.as_view()),
]
