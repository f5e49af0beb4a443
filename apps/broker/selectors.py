"""Which secret or connection does a call use, and what is its value, for this one request?"""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.broker.errors import ConnectionMissing, SecretMissing
from apps.broker.models import Connection, Secret, SecretGrant
from apps.broker.vault import unseal


def secret_for(*, package: str, need: str) -> str:
    """Return the value that a package was granted under a name, or raise SecretMissing."""
    grant = (
        SecretGrant.objects.select_related("secret")
        .filter(package__name=package, need=need)
        .first()
    )
    if grant is None:
        raise SecretMissing(f"{package} needs the secret {need}, and none was granted to it.")
    return unseal(grant.secret.sealed, row=grant.secret.key)


def connection_of(*, app: str, permissions: Collection[str], member: User | None) -> Connection:
    """Return the connection of a member, or of the company where none is named.

    It has to hold every permission, and not to have expired.
    """
    found = _usable().filter(app=app, owner=member).first()
    whose = "the company" if member is None else str(member.name)
    if found is None:
        raise ConnectionMissing(f"There is no connection of {whose} to {app}.")
    missing = sorted(set(permissions) - set(found.permissions))
    if missing:
        raise ConnectionMissing(f"The connection of {whose} to {app} does not cover {missing[0]}.")
    return found


def token_of(connection_id: str) -> str:
    """Return the access token of a connection that may still be used."""
    found = _usable().filter(pk=connection_id).first()
    if found is None:
        raise ConnectionMissing("The connection is not there any more, or has expired.")
    return unseal(found.sealed, row=found.key)


def secrets_with_uses() -> QuerySet[Secret]:
    """Return the secrets with who set them and which packages use them, in two queries."""
    return Secret.objects.select_related("set_by").prefetch_related("grants__package")


def _usable() -> QuerySet[Connection]:
    return Connection.objects.filter(Q(expires_at=None) | Q(expires_at__gt=Now()))
