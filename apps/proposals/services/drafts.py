"""How does an author write, change, submit and take back a proposal?

A draft names exact bytes by two digests: one over its tree, one over its manifest. Whatever
changes either raises the revision, and no earlier test stands for the new pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may
from apps.audit.services import record
from apps.core.blobs import put_blobs
from apps.core.errors import Forbidden, Invalid
from apps.domain.lockfiles import dependencies_of
from apps.domain.manifests import BadManifest, Manifest, package_problems, parse_manifest
from apps.domain.packagetree import tree_digest
from apps.packages.services import check_admissible
from apps.proposals.errors import (
    AlreadyOpen,
    InvalidPackage,
    NoCurrentReceipt,
    NotADraft,
    ProposalNotFound,
    StaleRevision,
    TooManyOpen,
)
from apps.proposals.models import PackageProposal, ProposalFile, ProposalTest
from apps.proposals.selectors import current_receipt, draft_tree

State = PackageProposal.State
OPEN_STATES = (State.DRAFT, State.SUBMITTED)
MAX_OPEN = 50
MAX_NOTE = 500


@transaction.atomic
def create_proposal(
    *, author: User, manifest: Mapping[str, Any], files: Mapping[str, bytes], note: str = ""
) -> PackageProposal:
    """Save a new draft of a package version: a manifest and a tree that agree with each other."""
    # The author's row orders their creations, so the bound and the one open ref hold.
    author = _lock_author(author)
    read = read_package(manifest, files)
    check_admissible(manifest=read, author=author)
    open_ones = PackageProposal.objects.filter(author=author, state__in=OPEN_STATES)
    if open_ones.filter(ref=read.ref).exists():
        raise AlreadyOpen(
            f"You already have an open proposal of {read.ref}. Change or withdraw it.",
            field="manifest.version",
        )
    if open_ones.count() >= MAX_OPEN:
        raise TooManyOpen(f"You have {MAX_OPEN} open proposals. Withdraw one first.")
    proposal = PackageProposal(author=author, note=_note(note))
    _describe(proposal, read, files)
    proposal.save(force_insert=True)
    _write_files(proposal, files)
    _record(proposal, author, "proposal.created", {"revision": proposal.revision})
    return proposal


@transaction.atomic
def replace_draft(
    *,
    proposal_id: Any,
    author: User,
    revision: int,
    manifest: Mapping[str, Any] | None = None,
    files: Mapping[str, bytes] | None = None,
) -> PackageProposal:
    """Put a new manifest, a new tree or both in the place of a draft's; what is left out stays.

    Here the author of the change may be a collaborator; the draft stays its own author's.
    """
    proposal = lock_shared(proposal_id, author)
    require_draft(proposal)
    if proposal.revision != revision:
        raise StaleRevision(
            f"The draft is at revision {proposal.revision}, and you read revision {revision}."
            " Read it again.",
            field="revision",
            extra={"revision": proposal.revision},
        )
    tree = draft_tree(proposal) if files is None else files
    read = read_package(proposal.manifest if manifest is None else manifest, tree)
    if read.ref != proposal.ref:
        check_admissible(manifest=read, author=proposal.author)
        others = PackageProposal.objects.filter(
            author=proposal.author, state__in=OPEN_STATES, ref=read.ref
        )
        if others.exclude(pk=proposal.pk).exists():
            raise AlreadyOpen(
                f"There is an open proposal of {read.ref} by this author already.",
                field="manifest.version",
            )
    before = (proposal.artifact_hash, proposal.contract_digest)
    _describe(proposal, read, tree)
    if (proposal.artifact_hash, proposal.contract_digest) == before:
        return proposal
    proposal.revision += 1
    if not proposal.was_written_by(author):
        proposal.writers = [*proposal.writers, author.pk]
    proposal.save()
    if files is not None:
        proposal.files.all().delete()
        _write_files(proposal, files)
    _supersede_tests(proposal)
    _record(proposal, author, "proposal.changed", {"revision": proposal.revision})
    return proposal


@transaction.atomic
def submit_proposal(*, proposal_id: Any, author: User, note: str | None = None) -> PackageProposal:
    """Hand a tested draft to the reviewers."""
    proposal = lock_own(proposal_id, author)
    require_draft(proposal)
    if current_receipt(proposal) is None:
        raise NoCurrentReceipt(
            f"{proposal.ref} has no passed test of these bytes and this contract. Test it first."
        )
    check_admissible(manifest=parse_manifest(proposal.manifest), author=author)
    if note is not None:
        proposal.note = _note(note)
    proposal.state = State.SUBMITTED
    proposal.submitted_at = Now()
    proposal.save(update_fields=["state", "submitted_at", "note", "updated_at"])
    proposal.refresh_from_db(fields=["submitted_at"])
    _record(proposal, author, "proposal.submitted", {"revision": proposal.revision})
    return proposal


@transaction.atomic
def withdraw_proposal(*, proposal_id: Any, author: User) -> PackageProposal:
    """Take back a draft, or a proposal that nobody has decided on yet."""
    proposal = lock_own(proposal_id, author)
    if proposal.state not in OPEN_STATES:
        raise NotADraft(f"{proposal.ref} is {proposal.get_state_display().lower()} already.")
    proposal.state = State.WITHDRAWN
    proposal.save(update_fields=["state", "updated_at"])
    _supersede_tests(proposal, "The proposal was withdrawn before this test ended.")
    _record(proposal, author, "proposal.withdrawn")
    return proposal


def read_package(manifest: Any, files: Mapping[str, bytes]) -> Manifest:
    """Return the checked manifest of a package whose files agree with it, or name every problem."""
    try:
        read = parse_manifest(manifest)
    except BadManifest as refusal:
        raise InvalidPackage(("manifest", problem) for problem in refusal.problems) from None
    problems = package_problems(read, files)
    if problems:
        # A missing entry is the manifest's fault; everything else is a file's.
        raise InvalidPackage(
            ("manifest" if problem.rule == "entry_missing" else "files", problem)
            for problem in problems
        )
    return read


def lock_proposal(proposal_id: Any) -> PackageProposal:
    """Lock a proposal's row and return it as it now stands."""
    proposal = (
        PackageProposal.objects.select_for_update(no_key=True, of=("self",))
        .select_related("author")
        .filter(pk=proposal_id)
        .first()
    )
    if proposal is None:
        raise ProposalNotFound("There is no such proposal.")
    found: PackageProposal = proposal
    return found


def lock_own(proposal_id: Any, author: User) -> PackageProposal:
    """Lock a proposal of one's own; another's looks as if it did not exist."""
    proposal = lock_shared(proposal_id, author)
    if proposal.author_id != author.pk:
        raise Forbidden("Its author submits a proposal, withdraws it and says who works on it.")
    return proposal


def lock_shared(proposal_id: Any, member: User) -> PackageProposal:
    """Lock a proposal that one wrote or works on; another's looks as if it did not exist."""
    proposal = lock_proposal(proposal_id)
    if not works_on(proposal, member):
        raise ProposalNotFound("There is no such proposal.")
    return proposal


def works_on(proposal: PackageProposal, member: User) -> bool:
    """Say whether a member may read and change a draft: as its author, or as a collaborator."""
    if proposal.author_id == member.pk:
        return member.is_active
    return may(member, Permission.PROPOSAL_WORK, proposal)


def _lock_author(author: User) -> User:
    locked = User.objects.select_for_update(no_key=True).filter(pk=author.pk).first()
    if locked is None or not locked.is_active:
        raise Forbidden("This account is switched off.")
    return locked


def require_draft(proposal: PackageProposal) -> None:
    """Refuse unless the proposal is a draft still."""
    if proposal.state != State.DRAFT:
        raise NotADraft(
            f"{proposal.ref} is {proposal.get_state_display().lower()}, not a draft. It stays as"
            " it is."
        )


def _describe(proposal: PackageProposal, read: Manifest, files: Mapping[str, bytes]) -> None:
    proposal.name = read.name
    proposal.version = read.version
    proposal.ref = read.ref
    proposal.format = read.format
    proposal.manifest = read.as_dict()
    proposal.artifact_hash = tree_digest(files)
    proposal.contract_digest = read.contract_digest
    proposal.dependencies = dependencies_of(files).digest


def _write_files(proposal: PackageProposal, files: Mapping[str, bytes]) -> None:
    stored = put_blobs(files.values())
    ProposalFile.objects.bulk_create(
        ProposalFile(proposal=proposal, path=path, blob_id=stored[files[path]])
        for path in sorted(files)
    )


def _supersede_tests(
    proposal: PackageProposal, why: str = "The draft was changed before this test ended."
) -> None:
    """End what tests an earlier state; its worker finds out at its next heartbeat and stops."""
    open_states = (ProposalTest.State.QUEUED, ProposalTest.State.RUNNING)
    proposal.tests.filter(state__in=open_states).update(
        state=ProposalTest.State.ERROR,
        explanation=why,
        finished_at=Now(),
        executor="",
        executor_expires_at=None,
        updated_at=Now(),
    )


def _record(
    proposal: PackageProposal, actor: User, action: str, detail: dict[str, Any] | None = None
) -> None:
    record(
        actor=actor,
        action=action,
        subject=proposal,
        digest=proposal.artifact_hash,
        detail={"ref": proposal.ref, "contract": proposal.contract_digest, **(detail or {})},
    )


def _note(note: str) -> str:
    clean = note.strip()
    if len(clean) > MAX_NOTE or "\x00" in clean:
        raise Invalid(f"A note has at most {MAX_NOTE} characters.", field="note")
    return clean
