"""How are runs read, and agents seated, from outside?"""

from __future__ import annotations

import uuid

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.views import MemberView
from apps.core.api.schema import IDEMPOTENCY
from apps.rooms.selectors import visible_room
from apps.runs.api.serializers import (
    NewSeatSerializer,
    RunQuerySerializer,
    RunSerializer,
    SeatSerializer,
)
from apps.runs.models import Seat
from apps.runs.selectors import runs_for, seats_of, visible_run
from apps.runs.services import add_seat, remove_seat


class RunsView(MemberView):
    """The runs of the member's rooms."""

    @extend_schema(
        operation_id="runs_list",
        parameters=[RunQuerySerializer],
        responses=RunSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """List runs, newest first."""
        query = self.query(RunQuerySerializer)
        rows = runs_for(self.member, room_id=query.get("room"), state=query.get("state"))
        return self.page(rows, RunSerializer)


class RunView(MemberView):
    """One run."""

    @extend_schema(operation_id="runs_read", responses=RunSerializer)
    def get(self, request: Request, run_id: uuid.UUID) -> Response:
        """Show how a run stands."""
        self.query()
        return Response(RunSerializer(visible_run(run_id=run_id, user=self.member)).data)


class SeatsView(MemberView):
    """The agents in a room."""

    @extend_schema(operation_id="seats_list", responses=SeatSerializer(many=True))
    def get(self, request: Request, room_id: uuid.UUID) -> Response:
        """List the agents that have a seat in a room."""
        self.query()
        room = visible_room(room_id=room_id, user=self.member)
        return self.page(seats_of(room), SeatSerializer, order="created_at")

    @extend_schema(
        operation_id="seats_create",
        parameters=[IDEMPOTENCY],
        request=NewSeatSerializer,
        responses={201: SeatSerializer},
    )
    def post(self, request: Request, room_id: uuid.UUID) -> Response:
        """Give an agent that one may use a seat in a room."""
        fields = self.body(NewSeatSerializer)
        visible_room(room_id=room_id, user=self.member)

        def seat() -> Seat:
            return add_seat(room_id=room_id, member=self.member, agent_slug=fields["agent"])

        return self.create(seat, SeatSerializer)


class SeatView(MemberView):
    """One agent's seat in a room."""

    @extend_schema(operation_id="seats_remove", responses={204: None})
    def delete(self, request: Request, room_id: uuid.UUID, slug: str) -> Response:
        """Take an agent's seat away; its active run goes on to its end."""
        visible_room(room_id=room_id, user=self.member)
        remove_seat(room_id=room_id, member=self.member, agent_slug=slug)
        return Response(status=status.HTTP_204_NO_CONTENT)
