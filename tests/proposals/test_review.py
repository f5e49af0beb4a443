"""How does a proposal become a package, and who may say so?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from apps.accounts.models import User
from apps.audit.models import AuditRow
from apps.core.errors import Forbidden, Invalid
from apps.core.models import Blob
from apps.packages.errors import TreeMismatch
from apps.packages.models import Package, PackageVersion
from apps.packages.selectors import load_tree
from apps.proposals import services
from apps.proposals.errors import (
    NoCurrentReceipt,
    NotReviewable,
    OwnProposal,
    StaleComparison,
)
from apps.proposals.models import PackageProposal
from tests.factories import packages as made
from tests.proposals.conftest import give_receipt

pytestmark = pytest.mark.django_db


def test_approval_admits_exactly_the_tested_pair(
    submitted: PackageProposal, reviewer: User
) -> None:
    approved = services.approve_proposal(proposal_id=submitted.pk, reviewer=reviewer)
    version = PackageVersion.objects.get(ref="weather@1.0.0")
    assert approved.state == "approved"
    assert approved.reviewer == reviewer
    assert version.artifact_hash == submitted.artifact_hash
    assert version.contract_digest == submitted.contract_digest
    assert version.admitted_by == reviewer
    assert load_tree(version) == made.tree()
    assert Package.objects.get().active_version == version
    assert [tool.name for tool in version.tools.all()] == ["pkg_weather_convert"]
    assert list(
        AuditRow.objects.filter(actor=reviewer.key).order_by("id").values_list("action", flat=True)
    ) == ["package.published", "proposal.approved"]


def test_nobody_approves_their_own(
    author: User, make_reviewer: Callable[..., User], submitted: PackageProposal
) -> None:
    alone = make_reviewer("alone")
    PackageProposal.objects.filter(pk=submitted.pk).update(author=alone)
    with pytest.raises(OwnProposal):
        services.approve_proposal(proposal_id=submitted.pk, reviewer=alone)
    with pytest.raises(OwnProposal):
        services.reject_proposal(proposal_id=submitted.pk, reviewer=alone, reason="No.")


def test_only_reviewers_decide(submitted: PackageProposal, other: User) -> None:
    with pytest.raises(Forbidden):
        services.approve_proposal(proposal_id=submitted.pk, reviewer=other)
    with pytest.raises(Forbidden):
        services.reject_proposal(proposal_id=submitted.pk, reviewer=other, reason="No.")


def test_approval_needs_a_receipt_that_still_holds(
    submitted: PackageProposal, reviewer: User
) -> None:
    give_receipt(submitted, "failed", failed=1)
    with pytest.raises(NoCurrentReceipt):
        services.approve_proposal(proposal_id=submitted.pk, reviewer=reviewer)
    assert not PackageVersion.objects.exists()


def test_a_draft_is_not_decided_on(tested: PackageProposal, reviewer: User) -> None:
    with pytest.raises(NotReviewable):
        services.approve_proposal(proposal_id=tested.pk, reviewer=reviewer)


def test_a_decision_is_made_once(submitted: PackageProposal, reviewer: User) -> None:
    services.approve_proposal(proposal_id=submitted.pk, reviewer=reviewer)
    with pytest.raises(NotReviewable):
        services.approve_proposal(proposal_id=submitted.pk, reviewer=reviewer)
    with pytest.raises(NotReviewable):
        services.reject_proposal(proposal_id=submitted.pk, reviewer=reviewer, reason="Late.")


@pytest.mark.parametrize("reason", ["", "   ", "x" * 1001])
def test_a_rejection_has_a_reason(submitted: PackageProposal, reviewer: User, reason: str) -> None:
    with pytest.raises(Invalid):
        services.reject_proposal(proposal_id=submitted.pk, reviewer=reviewer, reason=reason)


def test_a_rejection_admits_nothing(submitted: PackageProposal, reviewer: User) -> None:
    rejected = services.reject_proposal(
        proposal_id=submitted.pk, reviewer=reviewer, reason=" Reads too much. "
    )
    assert rejected.state == "rejected"
    assert rejected.decision_reason == "Reads too much."
    assert not PackageVersion.objects.exists()
    assert "Reads" not in str(list(AuditRow.objects.values_list("detail", flat=True)))


def test_bytes_that_changed_under_the_review_are_not_admitted(
    submitted: PackageProposal, reviewer: User
) -> None:
    one = submitted.files.get(path="weather.py")
    Blob.objects.filter(pk=one.blob_id).update(content=b"import os\n")
    with pytest.raises(TreeMismatch):
        services.approve_proposal(proposal_id=submitted.pk, reviewer=reviewer)
    assert not PackageVersion.objects.exists()


def test_what_was_compared_with_must_still_be_active(
    submitted: PackageProposal, reviewer: User, author: User
) -> None:
    services.approve_proposal(proposal_id=submitted.pk, reviewer=reviewer, compared_with="")
    for version in ("1.1.0", "1.2.0"):
        later = services.create_proposal(
            author=author, manifest=made.manifest(version=version), files=made.tree(version=version)
        )
        give_receipt(later)
        services.submit_proposal(proposal_id=later.pk, author=author)
    first, second = PackageProposal.objects.filter(state="submitted").order_by("version")
    services.approve_proposal(
        proposal_id=first.pk, reviewer=reviewer, compared_with="weather@1.0.0"
    )
    with pytest.raises(StaleComparison):
        services.approve_proposal(
            proposal_id=second.pk, reviewer=reviewer, compared_with="weather@1.0.0"
        )
    services.approve_proposal(
        proposal_id=second.pk, reviewer=reviewer, compared_with="weather@1.1.0"
    )
    active = Package.objects.get().active_version
    assert active is not None
    assert active.ref == "weather@1.2.0"
