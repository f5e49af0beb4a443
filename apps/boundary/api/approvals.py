"""How are questions answered from outside, and how does a member say when to be asked?"""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.views import MemberView
from apps.approvals import wishes
from apps.approvals.models import ApprovalRequest
from apps.approvals.selectors import (
    pending_approvals_for,
    request_for,
    requests_for,
    requests_waiting_for_others,
)
from apps.boundary.api.approval_shapes import (
    ApprovalDetailSerializer,
    ApprovalQuerySerializer,
    ApprovalSerializer,
    ApproveSerializer,
    ChosenModeSerializer,
    DenySerializer,
    EditedSerializer,
    EditSerializer,
    ModePlaceSerializer,
    ModeSerializer,
    RememberedSerializer,
)
from apps.boundary.approval_sheet import approval_sheet
from apps.boundary.edits import edit_approval
from apps.boundary.services import decide_approval


class ApprovalsView(MemberView):
    """The questions that the member decides."""

    @extend_schema(
        operation_id="approvals_list",
        parameters=[ApprovalQuerySerializer],
        responses=ApprovalSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """List the questions that wait for the member, for somebody else, or were decided."""
        asked = self.query(ApprovalQuerySerializer)
        state = asked.get("state")
        rows = requests_for(self.member)
        if state == "pending":
            rows = pending_approvals_for(self.member)
        elif state == "others":
            rows = requests_waiting_for_others(self.member)
        elif state == "decided":
            rows = rows.exclude(state=ApprovalRequest.State.PENDING)
        if "agent" in asked:
            rows = rows.filter(call__run__agent__slug=asked["agent"])
        return self.page(rows, ApprovalSerializer)


class ApprovalView(MemberView):
    """One question."""

    @extend_schema(operation_id="approvals_read", responses=ApprovalDetailSerializer)
    def get(self, request: Request, approval_id: uuid.UUID) -> Response:
        """Show a question, with the exact arguments, to one who decides it."""
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


class EditView(MemberView):
    """Other arguments."""

    # Arguments are at most this large anyway, and JSON text can be several times its characters.
    max_body_bytes = 2 * 1024 * 1024

    @extend_schema(
        operation_id="approvals_edit", request=EditSerializer, responses=EditedSerializer
    )
    def post(self, request: Request, approval_id: uuid.UUID) -> Response:
        """Put other arguments in place of these, as a new call, and say yes to that one."""
        request_for(approval_id=approval_id, decider=self.member)
        edited = edit_approval(
            approval_id=approval_id, member=self.member, **self.body(EditSerializer)
        )
        made = None
        if edited.request is not None:
            made = request_for(approval_id=edited.request.pk, decider=self.member)
        return Response(EditedSerializer({"approval": made, "call": edited.call.pk}).data)


class ModesView(MemberView):
    """How the member wants to be asked."""

    @extend_schema(operation_id="approval_modes_list", responses=ModeSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List the member's choices: the general one, and those by agent and room."""
        self.query()
        return self.page(wishes.choices_of(self.member), ModeSerializer)

    @extend_schema(
        operation_id="approval_modes_choose",
        request=ChosenModeSerializer,
        responses=ModeSerializer,
    )
    def put(self, request: Request) -> Response:
        """Choose; the rules of the deployment may still ask for more."""
        fields = self.body(ChosenModeSerializer)
        chosen = wishes.choose_mode(
            member=self.member,
            mode=fields["mode"],
            room_id=fields.get("room"),
            agent_slug=fields.get("agent", ""),
        )
        return Response(ModeSerializer(chosen).data)

    @extend_schema(
        operation_id="approval_modes_forget",
        parameters=[ModePlaceSerializer],
        responses={204: None},
    )
    def delete(self, request: Request) -> Response:
        """Let the more general choice count again."""
        place = self.query(ModePlaceSerializer)
        wishes.forget_mode(
            member=self.member, room_id=place.get("room"), agent_slug=place.get("agent", "")
        )
        return Response(status=status.HTTP_204_NO_CONTENT)


class RememberedView(MemberView):
    """What the member allowed once for all."""

    @extend_schema(
        operation_id="approval_remembered_list", responses=RememberedSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        """List the exact calls that pass in their room."""
        self.query()
        return self.page(wishes.remembered_by(self.member), RememberedSerializer)


class ForgottenView(MemberView):
    """One such call."""

    @extend_schema(operation_id="approval_remembered_forget", responses={204: None})
    def delete(self, request: Request, remembered_id: uuid.UUID) -> Response:
        """Ask again about it."""
        wishes.forget(remembered_id=remembered_id, member=self.member)
        return Response(status=status.HTTP_204_NO_CONTENT)
