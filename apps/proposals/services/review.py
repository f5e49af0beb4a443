"""How does a reviewer decide? By admitting exactly the tested pair, or by saying why not."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import record
from apps.core.errors import Invalid
from apps.domain.packagetree import tree_digest
from apps.packages.errors import TreeMismatch
from apps.packages.selectors import active_version_of
from apps.packages.services import publish_package
from apps.proposals.errors import (
    NoCurrentReceipt,
    NotReviewable,
    OwnProposal,
    StaleComparison,
)
from apps.proposals.models import PackageProposal
from apps.proposals.selectors import current_receipt, draft_tree
from apps.proposals.services.drafts import lock_proposal, read_package

MAX_REASON = 1000


@transaction.atomic
def approve_proposal(
    *, proposal_id: Any, reviewer: User, compared_with: str | None = None
) -> PackageProposal:
    """Approve a submitted proposal and admit exactly the bytes and the contract that were tested.

    `compared_with` is the ref that was active when the reviewer looked at the difference, empty
    for none; if another one is active by now, they have not seen what they would approve.
    """
    proposal = _lock_for_decision(proposal_id, reviewer)
    receipt = current_receipt(proposal)
    if receipt is None:
        raise NoCurrentReceipt(
            f"{proposal.ref} has no passed test of these bytes and this contract."
        )
    active = active_version_of(proposal.name)
    if compared_with is not None and compared_with != (active.ref if active else ""):
        raise StaleComparison(
            "Another version became active since you opened this page. Look at the difference"
            " again."
        )
    tree = draft_tree(proposal)
    manifest = read_package(proposal.manifest, tree)
    if (tree_digest(tree), manifest.contract_digest) != (
        receipt.artifact_hash,
        receipt.contract_digest,
    ):
        raise TreeMismatch(f"The stored bytes of {proposal.ref} are not the bytes tested.")
    publish_package(manifest=manifest, files=tree, author=proposal.author, admitted_by=reviewer)
    _decide(proposal, reviewer, PackageProposal.State.APPROVED, "")
    record(
        actor=reviewer,
        action="proposal.approved",
        subject=proposal,
        outcome="approved",
        digest=proposal.artifact_hash,
        detail={
            "ref": proposal.ref,
            "contract": proposal.contract_digest,
            "receipt": str(receipt.pk),
            "replaces": active.ref if active else None,
        },
    )
    return proposal


@transaction.atomic
def reject_proposal(*, proposal_id: Any, reviewer: User, reason: str) -> PackageProposal:
    """Turn a submitted proposal down, with a reason that its author reads."""
    proposal = _lock_for_decision(proposal_id, reviewer)
    clean = reason.strip()
    if not clean or len(clean) > MAX_REASON or "\x00" in clean:
        raise Invalid(f"A reason has 1 to {MAX_REASON} characters.", field="reason")
    _decide(proposal, reviewer, PackageProposal.State.REJECTED, clean)
    record(
        actor=reviewer,
        action="proposal.rejected",
        subject=proposal,
        outcome="rejected",
        digest=proposal.artifact_hash,
        detail={"ref": proposal.ref, "contract": proposal.contract_digest},
    )
    return proposal


def _lock_for_decision(proposal_id: Any, reviewer: User) -> PackageProposal:
    proposal = lock_proposal(proposal_id)
    require(reviewer, Permission.PROPOSAL_REVIEW)
    if proposal.was_written_by(reviewer):
        what = "this proposal" if proposal.author_id == reviewer.pk else "a part of this proposal"
        raise OwnProposal(f"You wrote {what}. Another reviewer has to decide on it.")
    if proposal.state != PackageProposal.State.SUBMITTED:
        raise NotReviewable(
            f"{proposal.ref} is {proposal.get_state_display().lower()}, not waiting for a decision."
        )
    return proposal


def _decide(proposal: PackageProposal, reviewer: User, state: str, reason: str) -> None:
    proposal.state = state
    proposal.reviewer = reviewer
    proposal.decided_at = timezone.now()
    proposal.decision_reason = reason
    proposal.save(
        update_fields=["state", "reviewer", "decided_at", "decision_reason", "updated_at"]
    )
