"""Where are calls, approvals and the callback of other runtimes?"""

from __future__ import annotations

from django.urls import include, path

from apps.boundary.api.approvals import (
    ApprovalsView,
    ApprovalView,
    ApproveView,
    DenyView,
    EditView,
    ForgottenView,
    ModesView,
    RememberedView,
)
from apps.boundary.api.choices import SeatToolsView
from apps.boundary.api.explain import ExplainView
from apps.boundary.api.pauses import PauseView
from apps.boundary.api.policy import (
    PinnedView,
    PinsView,
    PolicyEffectsView,
    PolicyToolsView,
    PolicyView,
)
from apps.boundary.api.views import CallView, RoomRunsView, RunCallsView, RunTokenView, StopView

urlpatterns = [
    path("runs/<uuid:run_id>/calls", RunCallsView.as_view()),
    path("runs/<uuid:run_id>/stop", StopView.as_view()),
    path("runs/<uuid:run_id>/token", RunTokenView.as_view()),
    path("rooms/<uuid:room_id>/runs", RoomRunsView.as_view()),
    path("calls/<uuid:call_id>", CallView.as_view()),
    path("approvals", ApprovalsView.as_view()),
    path("approvals/modes", ModesView.as_view()),
    path("approvals/remembered", RememberedView.as_view()),
    path("approvals/remembered/<uuid:remembered_id>", ForgottenView.as_view()),
    path("approvals/<uuid:approval_id>", ApprovalView.as_view()),
    path("approvals/<uuid:approval_id>/approve", ApproveView.as_view()),
    path("approvals/<uuid:approval_id>/deny", DenyView.as_view()),
    path("approvals/<uuid:approval_id>/edit", EditView.as_view()),
    path("rooms/<uuid:room_id>/seats/<slug:slug>/tools", SeatToolsView.as_view()),
    path("explain", ExplainView.as_view()),
    path("policy", PolicyView.as_view()),
    path("policy/preview", PolicyEffectsView.as_view()),
    path("policy/tools", PolicyToolsView.as_view()),
    path("policy/pins", PinnedView.as_view()),
    path("policy/pins/<str:family>/<str:surface>/<str:name>", PinsView.as_view()),
    path("pauses/<str:token>", PauseView.as_view()),
    path("", include("apps.boundary.api.callback_urls")),
]
