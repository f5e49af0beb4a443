"""How do accounts say no?"""

from __future__ import annotations

from apps.core.errors import NotFound, Refusal


class SignInRefused(Refusal):
    """Name and password do not belong to an active member. It never says which was wrong."""

    code = "sign_in_refused"
    status = 401


class TokenNotFound(NotFound):
    """The member holds no such token."""
