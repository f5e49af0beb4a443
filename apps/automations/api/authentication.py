"""Which automation does a webhook start? `Authorization: Bearer TOKEN` at its own address."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from apps.accounts.models import User
from apps.automations.errors import BadStartToken
from apps.automations.models import Automation
from apps.automations.services import automation_of_token
from apps.core.throttles import Limit, spend

SCHEME = "Bearer"
STARTS_PER_MINUTE = 30


class StartTokenAuthentication(BaseAuthentication):
    """Find the automation by its address and the digest of the presented token, in one query."""

    def authenticate(self, request: Request) -> tuple[User, Automation]:
        """Return the automation's member, and the automation as what authenticates them."""
        header = get_authorization_header(request).decode("latin-1")
        scheme, _, token = header.partition(" ")
        if scheme.lower() != SCHEME.lower() or not token.strip():
            raise BadStartToken("Send the automation's token as `Authorization: Bearer TOKEN`.")
        ident: UUID = request.parser_context["kwargs"]["automation_id"]
        automation = automation_of_token(automation_id=ident, token=token.strip())
        return automation.member, automation

    def authenticate_header(self, request: Request) -> str:
        """Name the scheme that was missing."""
        return SCHEME


class StartsAutomation(BasePermission):
    """Only an automation's token opens this door, never a member's own."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Say whether an automation authenticated the request."""
        return isinstance(request.auth, Automation)


class StartThrottle(BaseThrottle):
    """Count the starts of one automation."""

    def allow_request(self, request: Request, view: Any) -> bool:
        """Count this one, or refuse it; a count that cannot be kept refuses too."""
        automation: Any = request.auth
        spend(Limit("automation", STARTS_PER_MINUTE, 60), automation.key)
        return True


class StartTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document names the token."""

    target_class = "apps.automations.api.authentication.StartTokenAuthentication"
    name = "startToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """Describe the header."""
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "The token that making or rotating the webhook answered, once.",
        }
