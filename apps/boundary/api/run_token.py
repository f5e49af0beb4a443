"""Which run speaks here? `Authorization: Run TOKEN`, or `DPoP TOKEN` with a proof."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.accounts.models import User
from apps.boundary.external import find_run
from apps.boundary.senders import BOUND, PLAIN, BadToken, Sender, admit, key_offered, read_sender
from apps.runs.models import Run

PROOF = OpenApiParameter(
    name=BOUND,
    type=OpenApiTypes.STR,
    location=OpenApiParameter.HEADER,
    description="A proof (RFC 9449) for this request; the token is bound to its key.",
)
_ADMITTED = "_kaizen_sender"


def run_speaking(request: HttpRequest) -> Run:
    """Return the run for which a request speaks, with one query.

    Asked twice about one request, it reads the run again and does not count the proof again: a
    request that waits is checked before it waits, and answered after.
    """
    sender: Sender | None = getattr(request, _ADMITTED, None)
    if sender is not None:
        run = find_run(sender.token)
        if run.token_key != (sender.proof.key if sender.proof else ""):
            raise BadToken("This token is bound to another key than the proof's.")
        return run
    sender = read_sender(authorization=request.headers.get("Authorization", ""), **_sent(request))
    run = find_run(sender.token)
    admit(sender, run.token_key)
    setattr(request, _ADMITTED, sender)
    return run


def key_for_token(request: HttpRequest) -> str:
    """Return the thumbprint of the key to which the token that is asked for is to be bound."""
    return key_offered(**_sent(request))


def _sent(request: HttpRequest) -> dict[str, str]:
    return {
        "proof": request.headers.get(BOUND, ""),
        "method": request.method or "",
        "address": request.build_absolute_uri(request.path),
    }


class RunTokenAuthentication(BaseAuthentication):
    """Find the run by the digest of the presented token, with one query."""

    def authenticate(self, request: Request) -> tuple[User, Run]:
        """Return the run's member, and the run as what authenticates them."""
        run = run_speaking(request._request)
        return run.member, run

    def authenticate_header(self, request: Request) -> str:
        """Name the scheme that was missing."""
        return PLAIN


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
            "description": (
                "`Run TOKEN`, with the token that opening the run answered; `DPoP TOKEN` and a"
                " proof in the header `DPoP` where the token is bound to a key."
            ),
        }
