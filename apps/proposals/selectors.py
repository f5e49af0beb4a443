"""What do authors, reviewers and workers ask of proposals?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import F, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.permissions import Permission, members_with
from apps.domain.lockfiles import BadLock, LockedPackage, dependencies_of
from apps.packages.selectors import read_tree
from apps.proposals.errors import NoSuchTest, ProposalNotFound
from apps.proposals.models import PackageProposal, ProposalFile, ProposalTest

ENDED_WITH_EVIDENCE = (ProposalTest.State.PASSED, ProposalTest.State.FAILED)


def with_evidence(proposals: QuerySet[Any]) -> QuerySet[Any]:
    """Add `evidence`: how the newest finished test of exactly the present pair ended, if any."""
    finished = ProposalTest.objects.filter(
        proposal=OuterRef("pk"),
        state__in=ENDED_WITH_EVIDENCE,
        artifact_hash=OuterRef("artifact_hash"),
        contract_digest=OuterRef("contract_digest"),
    ).order_by("-finished_at")
    known: QuerySet[Any] = proposals.annotate(evidence=Subquery(finished.values("state")[:1]))
    return known


def visible_proposals(user: User) -> QuerySet[Any]:
    """Return the proposals that a member may see, with people and evidence."""
    rows = PackageProposal.objects.visible_to(user).select_related("author", "reviewer")
    return with_evidence(rows)


def proposal_sheet(*, proposal_id: Any, user: User) -> Any:
    """Return one visible proposal with evidence and the names, sizes and digests of its files."""
    files = Prefetch(
        "files",
        queryset=ProposalFile.objects.annotate(size=F("blob__size")).order_by("path"),
        to_attr="listed_files",
    )
    found = visible_proposals(user).prefetch_related(files).filter(pk=proposal_id).first()
    if found is None:
        raise ProposalNotFound("There is no such proposal.")
    found.locked = locked_packages(draft_tree(found)) if found.dependencies else ()
    return found


def locked_packages(tree: Mapping[str, bytes]) -> Sequence[LockedPackage]:
    """Return the packages that a tree's lock file names; a broken one is a problem elsewhere."""
    try:
        return dependencies_of(tree).packages
    except BadLock:
        return ()


def collaborators_of(*, proposal_id: Any, user: User) -> QuerySet[User]:
    """Return who works on a proposal that the member may see, besides its author."""
    proposal = PackageProposal.objects.visible_to(user).filter(pk=proposal_id).first()
    if proposal is None:
        raise ProposalNotFound("There is no such proposal.")
    return members_with(proposal, Permission.PROPOSAL_WORK, Permission.PROPOSAL_WORK)


def helpers_of(proposal: PackageProposal) -> list[User]:
    """Return who changed a proposal or works on it, besides its author."""
    working = members_with(proposal, Permission.PROPOSAL_WORK, Permission.PROPOSAL_WORK)
    rows = User.objects.filter(Q(pk__in=proposal.writers) | Q(pk__in=working.values("pk")))
    return list(rows.order_by("username"))


def tests_of(*, proposal_id: Any, user: User) -> QuerySet[ProposalTest]:
    """Return the tests of a proposal that the member may see, or refuse."""
    if not PackageProposal.objects.visible_to(user).filter(pk=proposal_id).exists():
        raise ProposalNotFound("There is no such proposal.")
    return ProposalTest.objects.filter(proposal=proposal_id).select_related(
        "proposal", "requested_by"
    )


def visible_test(*, proposal_id: Any, test_id: Any, user: User) -> ProposalTest:
    """Return one test of a proposal that the member may see, or refuse."""
    test = tests_of(proposal_id=proposal_id, user=user).filter(pk=test_id).first()
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
