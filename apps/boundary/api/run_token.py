"""Which run speaks here? `Authorization: Run TOKEN`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.accounts.models import User
from apps.boundary.external import BadToken, run_of_token
from apps.runs.models import Run

SCHEME = "Run"


def token_in(header: str) -> str:
    """Return the token of an authorization header, or refuse."""
    scheme, _, token = header.partition(" ")
    if scheme.lower() != SCHEME.lower() or not token.strip():
        raise BadToken("Send the run's token as `Authorization: Run TOKEN`.")
    return token.strip()


class RunTokenAuthentication(BaseAuthentication):
    """Find the run by the digest of the presented token, with one query."""

    def authenticate(self, request: Request) -> tuple[User, Run]:
        """Return the run's member, and the run as what authenticates them."""
        header = get_authorization_header(request).decode("latin-1")
        run = run_of_token(token_in(header))
        return run.member, run

    def authenticate_header(self, request: Request) -> str:
        """Name the scheme that was missing."""
        return SCHEME


class SpeaksForRun(BasePermission):
    """Only a run's token opens this door, never a member's own."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Say whether a run authenticated the request."""
        return isinstance(request.auth, Run)


class RunTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document names the token."""

    target_class = "apps.boundary.api.run_token.RunTokenAuthentication"
    name = "runToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """Describe the header."""
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`Run TOKEN`, with the token that opening the run answered.",
        }
