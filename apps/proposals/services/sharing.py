"""Who works on a draft besides its author? Collaborators, whom the author names and takes off.

A collaborator reads the proposal, changes the draft and tests it. To submit it, to withdraw it and
to say who works on it stays the author's.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.permissions import Permission, give, members_with, take
from apps.accounts.selectors import active_member_called, member_called
from apps.audit.services import record
from apps.core.errors import Conflict
from apps.proposals.errors import TooManyCollaborators
from apps.proposals.models import PackageProposal
from apps.proposals.services.drafts import lock_own, require_draft

MAX_COLLABORATORS = 20


@transaction.atomic
def share_proposal(*, proposal_id: Any, sharer: User, username: str) -> User:
    """Let another member work on a draft of one's own."""
    proposal = lock_own(proposal_id, sharer)
    require_draft(proposal)
    guest = active_member_called(username)
    if guest.pk == proposal.author_id:
        raise Conflict("The author of a proposal keeps it.", field="username")
    others = members_with(proposal, Permission.PROPOSAL_WORK, Permission.PROPOSAL_WORK)
    if others.exclude(pk=guest.pk).count() >= MAX_COLLABORATORS:
        raise TooManyCollaborators(f"At most {MAX_COLLABORATORS} members work on a draft.")
    give(guest, Permission.PROPOSAL_WORK, proposal)
    _record(proposal, sharer, guest, "proposal.shared")
    return guest


@transaction.atomic
def unshare_proposal(*, proposal_id: Any, sharer: User, username: str) -> None:
    """Take back what `share_proposal` gave, in whatever state the proposal is."""
    proposal = lock_own(proposal_id, sharer)
    guest = member_called(username)
    if guest.pk == proposal.author_id:
        raise Conflict("The author of a proposal keeps it.", field="username")
    take(guest, Permission.PROPOSAL_WORK, proposal)
    _record(proposal, sharer, guest, "proposal.unshared")


def _record(proposal: PackageProposal, actor: User, guest: User, action: str) -> None:
    record(
        actor=actor,
        action=action,
        subject=proposal,
        detail={"ref": proposal.ref, "member": guest.key},
    )
