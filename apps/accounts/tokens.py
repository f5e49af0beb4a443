"""Which tokens does a member hold for programs? Stored as digests, listed, revoked, expiring."""

from __future__ import annotations

from typing import Any, cast

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from knox.models import AuthToken

from apps.accounts.errors import TokenNotFound
from apps.accounts.models import User
from apps.audit.services import record


@transaction.atomic
def make_token(*, user: User) -> tuple[AuthToken, str]:
    """Make a token and return its row with the text, which exists only in this answer.

    A member holds a bounded number; past it the oldest goes, so nobody is shut out by tokens
    that they have lost.
    """
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    AuthToken.objects.filter(user=user, expiry__lte=timezone.now()).delete()
    most = cast(int, settings.REST_KNOX["TOKEN_LIMIT_PER_USER"])
    held = list(AuthToken.objects.filter(user=user).order_by("-created"))
    for old in held[most - 1 :]:
        _revoke(actor=user, token=old, why="limit")
    row, text = AuthToken.objects.create(user=user)
    record(actor=user, action="token.made", subject=key_of(row))
    return row, text


def tokens_of(user: User) -> QuerySet[AuthToken]:
    """Return the tokens with which the member can be signed in now."""
    rows: QuerySet[AuthToken] = AuthToken.objects.filter(user=user, expiry__gt=timezone.now())
    return rows


@transaction.atomic
def revoke_token(*, actor: User, user: User, token_key: str) -> None:
    """Take one token of a member away."""
    row = AuthToken.objects.select_for_update().filter(user=user, token_key=token_key).first()
    if row is None:
        raise TokenNotFound("You hold no such token.")
    _revoke(actor=actor, token=row, why="asked")


@transaction.atomic
def revoke_all_tokens(*, actor: User, user: User, why: str = "asked") -> int:
    """Take every token of a member away; return how many there were."""
    rows = list(AuthToken.objects.select_for_update().filter(user=user))
    for row in rows:
        _revoke(actor=actor, token=row, why=why)
    return len(rows)


def key_of(token: Any) -> str:
    """Name a token in audit rows by the part of it that is no secret."""
    return f"token:{token.token_key}"


def _revoke(*, actor: User, token: AuthToken, why: str) -> None:
    token.delete()
    record(
        actor=actor,
        action="token.revoked",
        subject=key_of(token),
        detail={"member": f"user:{token.user_id}", "why": why},
    )
