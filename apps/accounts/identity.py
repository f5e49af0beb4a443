"""Who acts in this request? Always the one who signed in, never somebody whom the input names."""

from __future__ import annotations

from typing import Any

from apps.accounts.models import User
from apps.core.errors import Forbidden


def acting_user(request: Any) -> User:
    """Return the member behind a request, or refuse."""
    user = getattr(request, "user", None)
    if not isinstance(user, User) or not user.is_active:
        raise Forbidden("Sign in first.")
    return user
