"""Which capabilities does a member have, whatever an agent's ceiling says?"""

from __future__ import annotations

from apps.accounts.models import User
from apps.domain.tooling import Capability


def capabilities_of(user: User) -> frozenset[Capability]:
    """Return what this member may do through any agent, now.

    Every active member has all of them; what one may touch with each is decided object by object,
    by the verb that touches it.
    """
    return frozenset(Capability) if user.is_active else frozenset()
