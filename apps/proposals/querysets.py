"""Which proposals does a member see?"""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.accounts.models import User
from apps.accounts.permissions import Permission, may


class ProposalQuerySet(models.QuerySet[Any]):
    """Proposals, narrowed by who asks."""

    def visible_to(self, user: User) -> ProposalQuerySet:
        """Keep one's own proposals, and for reviewers everything that was submitted."""
        if not user.is_active:
            return self.none()
        own = models.Q(author=user)
        if may(user, Permission.PROPOSAL_REVIEW):
            return self.filter(own | ~models.Q(state="draft"))
        return self.filter(own)
