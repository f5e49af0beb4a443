"""How does a person come in, and how is the door closed behind them?"""

from __future__ import annotations

from collections.abc import Collection

from django.contrib.auth import authenticate
from django.contrib.auth.models import Group
from django.db import transaction
from django.http import HttpRequest

from apps.accounts.addresses import address_of
from apps.accounts.errors import SignInRefused
from apps.accounts.models import User
from apps.accounts.tokens import revoke_all_tokens
from apps.audit.services import record
from apps.core.throttles import Limit, give_back, spend

# Only failed attempts stay counted. Names are counted together with the address, so that nobody
# can lock another member out from elsewhere.
FAILURES_BY_NAME = Limit("sign-in-name", 10, 300)
FAILURES_BY_ADDRESS = Limit("sign-in-address", 100, 300)


def verify_sign_in(*, request: HttpRequest, username: str, password: str) -> User:
    """Return the active member whom name and password belong to, counting the attempt first."""
    address = address_of(request)
    name = f"{username.casefold()} {address}"
    spend(FAILURES_BY_ADDRESS, address)
    spend(FAILURES_BY_NAME, name)
    user = authenticate(request, username=username, password=password)
    if not isinstance(user, User):
        raise SignInRefused("This name and password do not belong to an active member.")
    give_back(FAILURES_BY_ADDRESS, address)
    give_back(FAILURES_BY_NAME, name)
    return user


@transaction.atomic
def note_user_saved(*, actor: User, user: User, fields: list[str], created: bool) -> None:
    """Write down that an administrator made or changed a member; one shut out loses all tokens."""
    action = "user.created" if created else "user.changed"
    record(actor=actor, action=action, subject=user, detail={"fields": sorted(fields)[:30]})
    if not user.is_active:
        revoke_all_tokens(actor=actor, user=user, why="inactive")


@transaction.atomic
def note_password_set(*, actor: User, user: User) -> None:
    """Write down that a password was set; whoever signed in with the old one has to again."""
    record(actor=actor, action="user.password_set", subject=user)
    revoke_all_tokens(actor=actor, user=user, why="password")


@transaction.atomic
def note_group(*, actor: User, group: Group, word: str, fields: Collection[str] = ()) -> None:
    """Write down that a group of duties was created, changed or deleted."""
    record(
        actor=actor,
        action=f"group.{word}",
        subject=f"group:{group.pk}",
        detail={"fields": sorted(fields)[:30]},
    )
