"""Whose token is this?"""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from knox.auth import TokenAuthentication
from knox.crypto import hash_token
from knox.models import AuthToken
from rest_framework.exceptions import AuthenticationFailed

from apps.accounts.models import User


class BadToken(AuthenticationFailed):
    """The token is not one of ours, was revoked, or its member may not come in any more."""

    problem_code = "token_invalid"


class TokenExpired(AuthenticationFailed):
    """The token was one of ours and its time is over."""

    problem_code = "token_expired"


class BearerAuthentication(TokenAuthentication):
    """Find the member by the digest of the presented token, with one query."""

    def authenticate_credentials(self, token: bytes) -> tuple[User, AuthToken]:
        """Return member and token row, or refuse."""
        try:
            digest = hash_token(token.decode("ascii"))
        except UnicodeDecodeError:
            raise BadToken("This token is not valid.") from None
        row = AuthToken.objects.select_related("user").filter(pk=digest).first()
        if row is None or not row.user.is_active:
            raise BadToken("This token is not valid.")
        if row.expiry is None or row.expiry <= timezone.now():
            raise TokenExpired("This token has expired. Sign in again for a new one.")
        return row.user, row


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document names the token."""

    target_class = "apps.accounts.api.authentication.BearerAuthentication"
    name = "bearerToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """Describe the header."""
        return {"type": "http", "scheme": "bearer"}
