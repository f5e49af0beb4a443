"""Which member does somebody mean?"""

from __future__ import annotations

from apps.accounts.models import User
from apps.core.errors import NotFound
from apps.domain.words import shown


def member_called(username: str) -> User:
    """Return the member of this name, active or not, or refuse."""
    found = User.objects.filter(username=username).first()
    if found is None:
        raise NotFound(f"No member is called {shown(username)}.", field="username")
    return found


def active_member_called(username: str) -> User:
    """Return the member of this name, whose account is open, or refuse."""
    found = User.objects.filter(username=username, is_active=True).first()
    if found is None:
        raise NotFound(f"No active member is called {shown(username)}.", field="username")
    return found
