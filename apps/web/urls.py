"""Which address leads to which of the member's pages?"""

from __future__ import annotations

from django.urls import path

from apps.web.views import approvals, artifacts, asking, automations, rooms, session

urlpatterns = [
    path("", session.front_door, name="front-door"),
    path("sign-in/", session.SignIn.as_view(), name="sign-in"),
    path("sign-out/", session.SignOut.as_view(), name="sign-out"),
    path("rooms/", rooms.rooms, name="rooms"),
    path("rooms/new/", rooms.new_room, name="new-room"),
    path("rooms/<uuid:room_id>/", rooms.room, name="room"),
    path("approvals/", approvals.inbox, name="approvals"),
    path("approvals/list/", approvals.listing, name="approvals-list"),
    path("approvals/count/", approvals.count, name="approvals-count"),
    path("approvals/when/", asking.asking, name="asking"),
    path("approvals/<uuid:approval_id>/", approvals.inbox, name="approval"),
    path("automations/", automations.automations, name="automations"),
    path(
        "artifacts/<uuid:artifact_id>/versions/<int:number>/preview",
        artifacts.preview,
        name="artifact-preview",
    ),
    path(
        "artifacts/<uuid:artifact_id>/versions/<int:number>/download",
        artifacts.download,
        name="artifact-download",
    ),
]
