"""What is written down when somebody signs in, fails to, or signs out?"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.dispatch import receiver
from django.http import HttpRequest

from apps.accounts.addresses import address_of
from apps.accounts.models import User
from apps.audit.services import record


@receiver(user_logged_in, dispatch_uid="accounts.signed_in")
def note_sign_in(*, request: HttpRequest | None = None, user: User, **_: Any) -> None:
    """Write down who signed in."""
    record(
        actor=user, action="user.signed_in", subject=user, detail={"address": address_of(request)}
    )


@receiver(user_logged_out, dispatch_uid="accounts.signed_out")
def note_sign_out(*, user: User | None = None, **_: Any) -> None:
    """Write down who signed out; a session without a person ends without a word."""
    if user is not None:
        record(actor=user, action="user.signed_out", subject=user)


@receiver(user_login_failed, dispatch_uid="accounts.sign_in_failed")
def note_failed_sign_in(
    *, credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any
) -> None:
    """Write down a failed attempt on a member that exists.

    The typed name itself is not kept: people type passwords into the wrong box.
    """
    name = credentials.get("username")
    pk = (
        User.objects.filter(username=name).values_list("pk", flat=True).first()
        if isinstance(name, str) and "\x00" not in name
        else None
    )
    record(
        actor="user:unknown",
        action="user.sign_in_failed",
        subject="user:unknown" if pk is None else f"user:{pk}",
        outcome="refused",
        detail={"address": address_of(request)},
    )
