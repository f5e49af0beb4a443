"""How do members follow calls, decide approvals and stop runs from outside?"""

from __future__ import annotations

import uuid

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.views import MemberView
from apps.boundary.api.reads import calls_of, visible_call
from apps.boundary.api.run_token import PROOF, key_for_token
from apps.boundary.api.serializers import (
    CallDetailSerializer,
    CallSerializer,
    NewRunSerializer,
    RunTokenSerializer,
    StartedRunSerializer,
)
from apps.boundary.external import Opened, open_external_run, renew_run_token
from apps.boundary.services import stop_run
from apps.core.api.schema import IDEMPOTENCY
from apps.rooms.selectors import visible_room
from apps.runs.api.serializers import RunSerializer
from apps.runs.selectors import visible_run


class RunCallsView(MemberView):
    """The calls of a run."""

    @extend_schema(operation_id="runs_calls", responses=CallSerializer(many=True))
    def get(self, request: Request, run_id: uuid.UUID) -> Response:
        """List the calls of a run in the order of their making."""
        self.query()
        run = visible_run(run_id=run_id, user=self.member)
        return self.page(calls_of(run), CallSerializer, order="created_at")


class StopView(MemberView):
    """The end of a run before its time."""

    @extend_schema(operation_id="runs_stop", request=None, responses=RunSerializer)
    def post(self, request: Request, run_id: uuid.UUID) -> Response:
        """Stop a run: the member's own, or any as the owner of its room."""
        self.body()
        stop_run(run_id=run_id, member=self.member)
        return Response(RunSerializer(visible_run(run_id=run_id, user=self.member)).data)


class RunTokenView(MemberView):
    """The token of a run of another runtime."""

    @extend_schema(
        operation_id="runs_renew_token",
        parameters=[PROOF],
        request=None,
        responses={201: RunTokenSerializer},
    )
    def post(self, request: Request, run_id: uuid.UUID) -> Response:
        """Replace the token of the member's own run, as when the first answer was lost."""
        self.body()
        key = key_for_token(request._request)
        opened = renew_run_token(run_id=run_id, member=self.member, key=key)
        return Response(RunTokenSerializer(opened).data, status=status.HTTP_201_CREATED)


class RoomRunsView(MemberView):
    """The runs of other runtimes."""

    @extend_schema(
        operation_id="rooms_start_run",
        parameters=[IDEMPOTENCY, PROOF],
        request=NewRunSerializer,
        responses={201: StartedRunSerializer},
    )
    def post(self, request: Request, room_id: uuid.UUID) -> Response:
        """Start a run for another runtime; its token is shown in this answer only."""
        fields = self.body(NewRunSerializer)
        visible_room(room_id=room_id, user=self.member)

        def start() -> Opened:
            return open_external_run(
                room_id=room_id,
                member=self.member,
                agent_slug=fields["agent"],
                # Here, so that a request that is sent again whole gets its first answer again.
                key=key_for_token(request._request),
            )

        return self.create(start, StartedRunSerializer, shown_once=("token",))


class CallView(MemberView):
    """One call."""

    @extend_schema(operation_id="calls_read", responses=CallDetailSerializer)
    def get(self, request: Request, call_id: uuid.UUID) -> Response:
        """Show a call; arguments and result only to the member for whom its run works."""
        self.query()
        call = visible_call(call_id=call_id, user=self.member)
        context = {"whole": call.run.member_id == self.member.pk}
        return Response(CallDetailSerializer(call, context=context).data)
