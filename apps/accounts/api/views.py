"""How does a program sign in, and what does it learn about itself?"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from knox.models import AuthToken
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.serializers import (
    MadeTokenSerializer,
    MeSerializer,
    SignInSerializer,
    TokenSerializer,
)
from apps.accounts.identity import acting_user
from apps.accounts.models import User
from apps.accounts.services import verify_sign_in
from apps.accounts.tokens import make_token, revoke_token, tokens_of
from apps.core.api.views import ApiView
from apps.core.errors import Conflict


class MemberView(ApiView):
    """A view for signed-in members."""

    @property
    def member(self) -> User:
        """The member who asks; it comes from session or token, never from what was sent."""
        return acting_user(self.request)


class TokenView(MemberView):
    """The token with which a program signs in."""

    def get_authenticators(self) -> list[Any]:
        """Look at no sign-in where one is being made: a stale token must not stand in its way."""
        if self.request is not None and self.request.method == "POST":
            return []
        return super().get_authenticators()

    def get_permissions(self) -> list[Any]:
        """Let anybody try to sign in."""
        if self.request.method == "POST":
            return []
        return list(super().get_permissions())

    def get_throttles(self) -> list[Any]:
        """Leave counting of sign-ins to the service, which counts more narrowly."""
        if self.request.method == "POST":
            return []
        return super().get_throttles()

    @extend_schema(
        operation_id="auth_token_create",
        request=SignInSerializer,
        responses={201: MadeTokenSerializer},
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Sign in with name and password; the token is shown in this answer only."""
        fields = self.body(SignInSerializer)
        user = verify_sign_in(
            request=request._request, username=fields["username"], password=fields["password"]
        )
        row, text = make_token(user=user)
        made = MadeTokenSerializer({"token": text, "expiry": row.expiry})
        return Response(made.data, status=status.HTTP_201_CREATED)

    @extend_schema(operation_id="auth_token_revoke_presented", responses={204: None})
    def delete(self, request: Request) -> Response:
        """Sign out: revoke the token that this request carries."""
        if not isinstance(request.auth, AuthToken):
            raise Conflict("This request carries no token that could be revoked.")
        revoke_token(actor=self.member, user=self.member, token_key=request.auth.token_key)
        return Response(status=status.HTTP_204_NO_CONTENT)


class MeView(MemberView):
    """The signed-in member."""

    @extend_schema(operation_id="auth_me", responses=MeSerializer)
    def get(self, request: Request) -> Response:
        """Tell the member who they are here."""
        return Response(MeSerializer(self.member).data)


class TokensView(MemberView):
    """The tokens that the member holds."""

    @extend_schema(operation_id="auth_tokens_list", responses=TokenSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List the tokens that still work."""
        self.query()
        return self.page(tokens_of(self.member), TokenSerializer, order="-created")


class TokenDetailView(MemberView):
    """One token that the member holds."""

    @extend_schema(operation_id="auth_tokens_revoke", responses={204: None})
    def delete(self, request: Request, token: str) -> Response:
        """Revoke one token by its id."""
        revoke_token(actor=self.member, user=self.member, token_key=token)
        return Response(status=status.HTTP_204_NO_CONTENT)
