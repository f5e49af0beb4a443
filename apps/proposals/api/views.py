"""How does an author draft, test and submit a package from a program?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.serializers import PersonSerializer
from apps.accounts.api.views import MemberView
from apps.core.api.parsing import StrictJSONParser
from apps.core.api.schema import IDEMPOTENCY
from apps.proposals import selectors, services
from apps.proposals.api.serializers import (
    ArchiveSerializer,
    ChangedDraftSerializer,
    CollaboratorSerializer,
    NewProposalSerializer,
    ProposalDetailSerializer,
    ProposalQuerySerializer,
    ProposalSerializer,
    SubmitSerializer,
    TestSerializer,
)
from apps.proposals.api.uploads import MAX_JSON_BYTES, ArchiveParser, unpack


class ProposalsView(MemberView):
    """The proposals that a member may see."""

    parser_classes = (StrictJSONParser, ArchiveParser)
    max_body_bytes = MAX_JSON_BYTES

    @extend_schema(
        operation_id="proposals_list",
        parameters=[ProposalQuerySerializer],
        responses=ProposalSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """List one's own proposals; reviewers see all that were ever submitted, too."""
        wanted = self.query(ProposalQuerySerializer)
        rows = selectors.visible_proposals(self.member).filter(**wanted)
        return self.page(rows, ProposalSerializer)

    @extend_schema(
        operation_id="proposals_create",
        parameters=[IDEMPOTENCY],
        request={
            "application/json": NewProposalSerializer,
            "multipart/form-data": ArchiveSerializer,
        },
        responses={201: ProposalDetailSerializer},
    )
    def post(self, request: Request) -> Response:
        """Save a new draft: a manifest and its files, as JSON or as one archive."""
        if hasattr(request.data, "lists"):
            fields = self.body(ArchiveSerializer)
            manifest, files = unpack(fields["archive"])
        else:
            fields = self.body(NewProposalSerializer)
            manifest, files = fields["manifest"], fields["files"]

        def make() -> Any:
            made = services.create_proposal(
                author=self.member, manifest=manifest, files=files, note=fields["note"]
            )
            return selectors.proposal_sheet(proposal_id=made.pk, user=self.member)

        return self.create(make, ProposalDetailSerializer)


class ProposalView(MemberView):
    """One proposal."""

    max_body_bytes = MAX_JSON_BYTES

    @extend_schema(operation_id="proposals_read", responses=ProposalDetailSerializer)
    def get(self, request: Request, proposal: UUID) -> Response:
        """Show a proposal with its manifest and the digests of its files."""
        return self._sheet(proposal)

    @extend_schema(
        operation_id="proposals_replace",
        request=ChangedDraftSerializer,
        responses=ProposalDetailSerializer,
    )
    def put(self, request: Request, proposal: UUID) -> Response:
        """Replace a draft's manifest, files or both, at the revision that was read."""
        fields = self.body(ChangedDraftSerializer)
        services.replace_draft(
            proposal_id=proposal,
            author=self.member,
            revision=fields["revision"],
            manifest=fields.get("manifest"),
            files=fields.get("files"),
        )
        return self._sheet(proposal)

    @extend_schema(operation_id="proposals_withdraw", responses={204: None})
    def delete(self, request: Request, proposal: UUID) -> Response:
        """Withdraw a proposal that nobody has decided on."""
        services.withdraw_proposal(proposal_id=proposal, author=self.member)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _sheet(self, proposal: Any) -> Response:
        found = selectors.proposal_sheet(proposal_id=proposal, user=self.member)
        return Response(ProposalDetailSerializer(found).data)


class ProposalSharesView(MemberView):
    """Who works on a draft besides its author."""

    @extend_schema(operation_id="proposals_shares", responses=PersonSerializer(many=True))
    def get(self, request: Request, proposal: UUID) -> Response:
        """List the collaborators."""
        self.query()
        rows = selectors.collaborators_of(proposal_id=proposal, user=self.member)
        return self.page(rows, PersonSerializer, order="username")

    @extend_schema(
        operation_id="proposals_share",
        parameters=[IDEMPOTENCY],
        request=CollaboratorSerializer,
        responses={201: PersonSerializer},
    )
    def post(self, request: Request, proposal: UUID) -> Response:
        """Let another member read a draft of one's own, change it and test it."""
        fields = self.body(CollaboratorSerializer)

        def share() -> Any:
            return services.share_proposal(proposal_id=proposal, sharer=self.member, **fields)

        return self.create(share, PersonSerializer)


class ProposalShareView(MemberView):
    """One collaborator."""

    @extend_schema(operation_id="proposals_unshare", responses={204: None})
    def delete(self, request: Request, proposal: UUID, username: str) -> Response:
        """Let a member work on it no longer."""
        services.unshare_proposal(proposal_id=proposal, sharer=self.member, username=username)
        return Response(status=status.HTTP_204_NO_CONTENT)


class SubmitView(MemberView):
    """Handing a draft to the reviewers."""

    @extend_schema(
        operation_id="proposals_submit",
        request=SubmitSerializer,
        responses=ProposalDetailSerializer,
    )
    def post(self, request: Request, proposal: UUID) -> Response:
        """Submit a draft whose present bytes and contract have a passed test."""
        fields = self.body(SubmitSerializer)
        services.submit_proposal(proposal_id=proposal, author=self.member, note=fields.get("note"))
        found = selectors.proposal_sheet(proposal_id=proposal, user=self.member)
        return Response(ProposalDetailSerializer(found).data)


class TestView(MemberView):
    """Asking for a run of the draft's own tests."""

    @extend_schema(
        operation_id="proposals_test",
        parameters=[IDEMPOTENCY],
        request=None,
        responses={202: TestSerializer},
    )
    def post(self, request: Request, proposal: UUID) -> Response:
        """Queue the tests over the present bytes, or answer the run that is under way."""
        self.body()

        def make() -> Any:
            made = services.request_test(proposal_id=proposal, member=self.member)
            return selectors.visible_test(proposal_id=proposal, test_id=made.pk, user=self.member)

        return self.create(make, TestSerializer, code=status.HTTP_202_ACCEPTED)


class TestsView(MemberView):
    """The test runs of a proposal."""

    @extend_schema(operation_id="proposals_tests_list", responses=TestSerializer(many=True))
    def get(self, request: Request, proposal: UUID) -> Response:
        """List the runs, newest first."""
        self.query()
        rows = selectors.tests_of(proposal_id=proposal, user=self.member)
        return self.page(rows, TestSerializer)


class TestDetailView(MemberView):
    """One test run."""

    @extend_schema(operation_id="proposals_tests_read", responses=TestSerializer)
    def get(self, request: Request, proposal: UUID, test: UUID) -> Response:
        """Show a run; while it goes on, its output grows."""
        found = selectors.visible_test(proposal_id=proposal, test_id=test, user=self.member)
        return Response(TestSerializer(found).data)
