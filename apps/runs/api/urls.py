"""Where are runs and seats?"""

from __future__ import annotations

from django.urls import path

from apps.runs.api.views import RunsView, RunView, SeatsView, SeatView

urlpatterns = [
    path("runs", RunsView.as_view()),
    path("runs/<uuid:run_id>", RunView.as_view()),
    path("rooms/<uuid:room_id>/seats", SeatsView.as_view()),
    path("rooms/<uuid:room_id>/seats/<slug:slug>", SeatView.as_view()),
]
