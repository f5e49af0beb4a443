"""Where are rooms?"""

from __future__ import annotations

from django.urls import path

from apps.rooms.api.views import (
    CloseView,
    EventsView,
    ParticipantsView,
    ParticipantView,
    RoomsView,
    RoomView,
)

urlpatterns = [
    path("rooms", RoomsView.as_view()),
    path("rooms/<uuid:room_id>", RoomView.as_view()),
    path("rooms/<uuid:room_id>/participants", ParticipantsView.as_view()),
    path("rooms/<uuid:room_id>/participants/<username:username>", ParticipantView.as_view()),
    path("rooms/<uuid:room_id>/close", CloseView.as_view()),
    path("rooms/<uuid:room_id>/events", EventsView.as_view()),
]
