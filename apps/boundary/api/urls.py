"""Where are calls, approvals and the callback of other runtimes?"""

from __future__ import annotations

from django.urls import include, path

from apps.boundary.api.choices import SeatToolsView
from apps.boundary.api.explain import ExplainView
from apps.boundary.api.pauses import PauseView
from apps.boundary.api.views import (
    ApprovalsView,
    ApprovalView,
    ApproveView,
    CallView,
    DenyView,
    RoomRunsView,
    RunCallsView,
    StopView,
)

urlpatterns = [
    path("runs/<uuid:run_id>/calls", RunCallsView.as_view()),
    path("runs/<uuid:run_id>/stop", StopView.as_view()),
    path("rooms/<uuid:room_id>/runs", RoomRunsView.as_view()),
    path("calls/<uuid:call_id>", CallView.as_view()),
    path("approvals", ApprovalsView.as_view()),
    path("approvals/<uuid:approval_id>", ApprovalView.as_view()),
    path("approvals/<uuid:approval_id>/approve", ApproveView.as_view()),
    path("approvals/<uuid:approval_id>/deny", DenyView.as_view()),
    path("rooms/<uuid:room_id>/seats/<slug:slug>/tools", SeatToolsView.as_view()),
    path("explain", ExplainView.as_view()),
    path("pauses/<str:token>", PauseView.as_view()),
    path("", include("apps.boundary.api.callback_urls")),
]
