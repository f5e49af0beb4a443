"""Where is a room lived in?"""

from __future__ import annotations

from django.urls import path

from apps.web.api.views import MessagesView, SnapshotView, TicketView

urlpatterns = [
    path("rooms/<uuid:room_id>/messages", MessagesView.as_view()),
    path("rooms/<uuid:room_id>/snapshot", SnapshotView.as_view()),
    path("rooms/<uuid:room_id>/ticket", TicketView.as_view()),
]
