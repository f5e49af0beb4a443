"""How do members follow calls, decide approvals and stop runs from outside?"""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.views import MemberView
from apps.approvals.models import ApprovalRequest
from apps.approvals.selectors import pending_approvals_for, request_for, requests_for
from apps.boundary.api.reads import calls_of, visible_call
from apps.boundary.api.serializers import (
    ApprovalDetailSerializer,
    ApprovalQuerySerializer,
    ApprovalSerializer,
    ApproveSerializer,
    CallDetailSerializer,
    CallSerializer,
    DenySerializer,
    NewRunSerializer,
    StartedRunSerializer,
)
from apps.boundary.approval_sheet import approval_sheet
from apps.boundary.external import Opened, open_external_run
from apps.boundary.services import decide_approval, stop_run
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


class RoomRunsView(MemberView):
    """The runs of other runtimes."""

    @extend_schema(
        operation_id="rooms_start_run",
        parameters=[IDEMPOTENCY],
        request=NewRunSerializer,
        responses={201: StartedRunSerializer},
    )
    def post(self, request: Request, room_id: uuid.UUID) -> Response:
        """Start a run for another runtime; its token is shown in this answer only."""
        fields = self.body(NewRunSerializer)
        visible_room(room_id=room_id, user=self.member)

        def start() -> Opened:
            return open_external_run(
                room_id=room_id, member=self.member, agent_slug=fields["agent"]
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


class ApprovalsView(MemberView):
    """The questions that the member decides."""

    @extend_schema(
        operation_id="approvals_list",
        parameters=[ApprovalQuerySerializer],
        responses=ApprovalSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """List the questions that wait for the member, or were decided."""
        state = self.query(ApprovalQuerySerializer).get("state")
        rows = requests_for(self.member)
        if state == "pending":
            rows = pending_approvals_for(self.member)
        elif state == "decided":
            rows = rows.exclude(state=ApprovalRequest.State.PENDING)
        return self.page(rows, ApprovalSerializer)


class ApprovalView(MemberView):
    """One question."""

    @extend_schema(operation_id="approvals_read", responses=ApprovalDetailSerializer)
    def get(self, request: Request, approval_id: uuid.UUID) -> Response:
        """Show a question, with the exact arguments, to the one who decides it."""
        self.query()
        sheet = approval_sheet(approval_id=approval_id, decider=self.member)
        shown = ApprovalDetailSerializer(sheet.request, context={"sheet": sheet})
        return Response(shown.data)


class ApproveView(MemberView):
    """A yes."""

    @extend_schema(
        operation_id="approvals_approve", request=ApproveSerializer, responses=ApprovalSerializer
    )
    def post(self, request: Request, approval_id: uuid.UUID) -> Response:
        """Say yes to exactly the arguments with this digest; it can be used once."""
        request_for(approval_id=approval_id, decider=self.member)
        return self._decided(approval_id, approve=True, **self.body(ApproveSerializer))

    def _decided(self, approval_id: uuid.UUID, **answer: Any) -> Response:
        decide_approval(approval_id=approval_id, member=self.member, **answer)
        shown = request_for(approval_id=approval_id, decider=self.member)
        return Response(ApprovalSerializer(shown).data, status=status.HTTP_200_OK)


class DenyView(ApproveView):
    """A no."""

    @extend_schema(
        operation_id="approvals_deny", request=DenySerializer, responses=ApprovalSerializer
    )
    def post(self, request: Request, approval_id: uuid.UUID) -> Response:
        """Say no; the call is not made, and the run goes on knowing why."""
        request_for(approval_id=approval_id, decider=self.member)
        fields = self.body(DenySerializer)
        return self._decided(approval_id, approve=False, comment=fields["reason"])
