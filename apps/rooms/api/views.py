"""How are rooms opened, joined, read and closed from outside?"""

from __future__ import annotations

import uuid

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.views import MemberView
from apps.core.api.schema import IDEMPOTENCY
from apps.rooms.api.serializers import (
    EventsQuerySerializer,
    EventsSerializer,
    InvitationSerializer,
    NewRoomSerializer,
    ParticipantSerializer,
    RoomDetailSerializer,
    RoomSerializer,
)
from apps.rooms.models import Participant, Room
from apps.rooms.selectors import events_after, roster_of, visible_room
from apps.rooms.services import close_room, create_room, invite, remove_participant


class RoomsView(MemberView):
    """The member's rooms."""

    @extend_schema(operation_id="rooms_list", responses=RoomSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List the rooms that the member takes part in, newest first."""
        self.query()
        rows = Room.objects.visible_to(self.member).select_related("created_by")
        return self.page(rows, RoomSerializer)

    @extend_schema(
        operation_id="rooms_create",
        parameters=[IDEMPOTENCY],
        request=NewRoomSerializer,
        responses={201: RoomSerializer},
    )
    def post(self, request: Request) -> Response:
        """Open a room that the member owns."""
        fields = self.body(NewRoomSerializer)

        def open_room() -> Room:
            room = create_room(creator=self.member, name=fields["name"])
            room.refresh_from_db(fields=["position", "updated_at"])
            return room

        return self.create(open_room, RoomSerializer)


class RoomView(MemberView):
    """One room."""

    @extend_schema(operation_id="rooms_read", responses=RoomDetailSerializer)
    def get(self, request: Request, room_id: uuid.UUID) -> Response:
        """Show a room with everyone in it."""
        self.query()
        room = visible_room(room_id=room_id, user=self.member)
        context = {"participants": roster_of(room.pk)}
        return Response(RoomDetailSerializer(room, context=context).data)


class ParticipantsView(MemberView):
    """The people in a room."""

    @extend_schema(
        operation_id="participants_create",
        parameters=[IDEMPOTENCY],
        request=InvitationSerializer,
        responses={201: ParticipantSerializer},
    )
    def post(self, request: Request, room_id: uuid.UUID) -> Response:
        """Bring another member into the room."""
        fields = self.body(InvitationSerializer)
        visible_room(room_id=room_id, user=self.member)

        def bring_in() -> Participant:
            place = invite(room_id=room_id, inviter=self.member, username=fields["username"])
            return Participant.objects.select_related("user").get(pk=place.pk)

        return self.create(bring_in, ParticipantSerializer)


class ParticipantView(MemberView):
    """One person in a room."""

    @extend_schema(operation_id="participants_remove", responses={204: None})
    def delete(self, request: Request, room_id: uuid.UUID, username: str) -> Response:
        """Leave the room, or take somebody out of it as its owner."""
        visible_room(room_id=room_id, user=self.member)
        remove_participant(room_id=room_id, actor=self.member, username=username)
        return Response(status=status.HTTP_204_NO_CONTENT)


class CloseView(MemberView):
    """The end of a room."""

    @extend_schema(operation_id="rooms_close", request=None, responses=RoomSerializer)
    def post(self, request: Request, room_id: uuid.UUID) -> Response:
        """Close the room for good; it stays readable."""
        self.body()
        visible_room(room_id=room_id, user=self.member)
        close_room(room_id=room_id, actor=self.member)
        room = Room.objects.select_related("created_by").get(pk=room_id)
        return Response(RoomSerializer(room).data)


class EventsView(MemberView):
    """The durable facts of a room."""

    @extend_schema(
        operation_id="rooms_events",
        parameters=[EventsQuerySerializer],
        responses=EventsSerializer,
    )
    def get(self, request: Request, room_id: uuid.UUID) -> Response:
        """Return the next events behind a position, in order."""
        query = self.query(EventsQuerySerializer)
        room = visible_room(room_id=room_id, user=self.member)
        found = events_after(room_id=room_id, position=query["after"], limit=query["limit"])
        return Response({"results": found, "position": room.position})
