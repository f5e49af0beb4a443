"""Which proposals does a member see?"""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.accounts.models import User
from apps.accounts.permissions import Permission, held_ids, may


class ProposalQuerySet(models.QuerySet[Any]):
    """Proposals, narrowed by who asks."""

    def visible_to(self, user: User) -> ProposalQuerySet:
        """Keep one's own and those that one works on; for reviewers, all that was submitted."""
        if not user.is_active:
            return self.none()
        shared = held_ids(self.model, user, Permission.PROPOSAL_WORK)
        own = models.Q(author=user) | models.Q(pk__in=shared)
        if may(user, Permission.PROPOSAL_REVIEW):
            return self.filter(own | ~models.Q(state="draft"))
        return self.filter(own)
