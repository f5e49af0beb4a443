"""What do authors, reviewers and workers ask of proposals?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.packages.selectors import read_tree
from apps.proposals.errors import NoSuchTest, ProposalNotFound
from apps.proposals.models import PackageProposal, ProposalFile, ProposalTest

ENDED_WITH_EVIDENCE = (ProposalTest.State.PASSED, ProposalTest.State.FAILED)


def visible_proposal(*, proposal_id: Any, user: User) -> PackageProposal:
    """Return a proposal of one's own, or one that is under one's review, or refuse."""
    proposal = (
        PackageProposal.objects.visible_to(user)
        .select_related("author", "reviewer")
        .filter(pk=proposal_id)
        .first()
    )
    if proposal is None:
        raise ProposalNotFound("There is no such proposal.")
    found: PackageProposal = proposal
    return found


def visible_test(*, proposal_id: Any, test_id: Any, user: User) -> ProposalTest:
    """Return one test of a proposal that the member may see, or refuse."""
    proposal = visible_proposal(proposal_id=proposal_id, user=user)
    test = proposal.tests.filter(pk=test_id).first()
    if test is None:
        raise NoSuchTest("The proposal has no such test.")
    return test


def draft_tree(proposal: PackageProposal) -> dict[str, bytes]:
    """Return the files of a proposal."""
    return read_tree(
        ProposalFile.objects.filter(proposal=proposal)
        .order_by("path")
        .values_list("path", "blob_id")
    )


def latest_evidence(proposal: PackageProposal) -> ProposalTest | None:
    """Return the newest test that ran to its end over exactly these bytes and this contract."""
    return (
        proposal.tests.filter(
            state__in=ENDED_WITH_EVIDENCE,
            artifact_hash=proposal.artifact_hash,
            contract_digest=proposal.contract_digest,
        )
        .order_by("-finished_at")
        .first()
    )


def current_receipt(proposal: PackageProposal) -> ProposalTest | None:
    """Return the passed test that stands for a proposal as it is now, if there is one.

    The newest run decides: a test that passed once and fails now proves nothing.
    """
    newest = latest_evidence(proposal)
    return newest if newest is not None and newest.state == ProposalTest.State.PASSED else None


def ready_tests(limit: int) -> Iterable[Any]:
    """Ids of tests that a worker should look at: queued, or held by a silent worker."""
    return (
        ProposalTest.objects.filter(
            Q(state=ProposalTest.State.QUEUED)
            | Q(state=ProposalTest.State.RUNNING, executor_expires_at__lt=Now())
        )
        .order_by("queued_at")
        .values_list("pk", flat=True)[:limit]
    )


def count_waiting_proposals() -> int:
    """Count what waits for a reviewer."""
    return PackageProposal.objects.filter(state=PackageProposal.State.SUBMITTED).count()


def held_blobs() -> list[Any]:
    """Name the digests that files of proposals point at."""
    return list(ProposalFile.objects.values_list("blob_id", flat=True).distinct())
