"""How is a room lived in from outside: said into, looked at, and listened to?"""

from __future__ import annotations

import uuid

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.views import MemberView
from apps.core.api.schema import IDEMPOTENCY
from apps.rooms.selectors import visible_room
from apps.rooms.tickets import TICKET_SECONDS, issue_ticket
from apps.web.api.serializers import (
    NewMessageSerializer,
    PostedSerializer,
    SnapshotSerializer,
    TicketSerializer,
)
from apps.web.services import Posted, post_message
from apps.web.snapshot import room_snapshot


class MessagesView(MemberView):
    """What is said in a room."""

    @extend_schema(
        operation_id="messages_create",
        parameters=[IDEMPOTENCY],
        request=NewMessageSerializer,
        responses={202: PostedSerializer},
    )
    def post(self, request: Request, room_id: uuid.UUID) -> Response:
        """Say something; the agent named with @, else the only one in the room, answers."""
        fields = self.body(NewMessageSerializer)

        def post() -> Posted:
            return post_message(
                room_id=room_id,
                member=self.member,
                text=fields["text"],
                steer=fields["steer"],
                about=fields.get("about", {}).get("artifact"),
            )

        return self.create(post, PostedSerializer, code=status.HTTP_202_ACCEPTED)


class SnapshotView(MemberView):
    """A room right now."""

    @extend_schema(operation_id="rooms_snapshot", responses=SnapshotSerializer)
    def get(self, request: Request, room_id: uuid.UUID) -> Response:
        """Show the present state of a room, as its socket does first."""
        self.query()
        room = visible_room(room_id=room_id, user=self.member)
        return Response(room_snapshot(room, self.member))


class TicketView(MemberView):
    """The way to a room's socket for programs."""

    @extend_schema(operation_id="rooms_ticket", request=None, responses={201: TicketSerializer})
    def post(self, request: Request, room_id: uuid.UUID) -> Response:
        """Issue a ticket that opens the room's socket once, within seconds."""
        self.body()
        ticket = issue_ticket(self.member, room_id)
        return Response(
            {"ticket": ticket, "expires_in": TICKET_SECONDS}, status=status.HTTP_201_CREATED
        )
