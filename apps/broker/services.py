"""How do secrets and connections come, change and go? Values go in; nothing here gives one out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.audit.services import SYSTEM, record
from apps.broker.errors import SecretNotFound, SecretRefused
from apps.broker.models import Connection, Secret, SecretGrant
from apps.broker.vault import is_current, seal, unseal
from apps.packages.models import Package

# A shorter one would be found in innocent text, and could not be kept out of answers.
MIN_VALUE = 8
MAX_VALUE = 8_192

_NAME = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*\Z")
# It stands in a header: one line that needs no encoding.
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?\Z")


def check_value(value: str) -> str:
    """Return a value that a request can carry, or refuse it."""
    if not MIN_VALUE <= len(value) <= MAX_VALUE:
        raise SecretRefused(f"A value has {MIN_VALUE} to {MAX_VALUE:,} characters.", field="value")
    if not _VALUE.match(value):
        raise SecretRefused("A value is one line of printable ASCII.", field="value")
    return value


@transaction.atomic
def set_secret(*, actor: User, name: str, value: str, note: str = "") -> Secret:
    """Give a secret its value, new or another one; the earlier one is gone."""
    require(actor, Permission.SECRET_MANAGE)
    if len(name) > 64 or not _NAME.match(name):
        raise SecretRefused("A name has letters, digits, and . _ - between them.", field="name")
    check_value(value)
    secret = Secret.objects.select_for_update().filter(name=name).first() or Secret(name=name)
    fresh = secret._state.adding
    secret.sealed = seal(value, row=secret.key)
    secret.note, secret.set_by, secret.set_at = note, actor, timezone.now()
    secret.save()
    action = "secret.set" if fresh else "secret.changed"
    record(actor=actor, action=action, subject=secret, detail={"name": name})
    return secret


@transaction.atomic
def describe_secret(*, actor: User, name: str, note: str) -> Secret:
    """Say anew what a secret is for; its value stays."""
    require(actor, Permission.SECRET_MANAGE)
    secret = Secret.objects.select_for_update().filter(name=name).first()
    if secret is None:
        raise SecretNotFound(f"There is no secret {name[:64]}.")
    if secret.note != note:
        secret.note = note
        secret.save(update_fields=["note", "updated_at"])
        record(actor=actor, action="secret.described", subject=secret, detail={"name": name})
    return secret


@transaction.atomic
def remove_secret(*, actor: User, name: str) -> None:
    """Remove a secret and every grant of it."""
    require(actor, Permission.SECRET_MANAGE)
    secret = Secret.objects.select_for_update().filter(name=name).first()
    if secret is None:
        raise SecretNotFound(f"There is no secret {name[:64]}.")
    packages = list(secret.grants.values_list("package__name", flat=True))
    secret.grants.all().delete()
    record(
        actor=actor,
        action="secret.removed",
        subject=secret,
        detail={"name": name, "packages": packages[:50]},
    )
    secret.delete()


@transaction.atomic
def grant_secret(*, actor: User, package: Package, need: str, secret: Secret) -> SecretGrant:
    """Let a package's declared requests carry a secret, under the name that the package uses."""
    require(actor, Permission.SECRET_MANAGE)
    grant, _ = SecretGrant.objects.update_or_create(
        package=package, need=need, defaults={"secret": secret, "granted_by": actor}
    )
    _note_grant(actor, grant, "secret.granted")
    return grant


@transaction.atomic
def revoke_secret(*, actor: User, grant: SecretGrant) -> None:
    """Take a secret from a package; its requests are refused from then on."""
    require(actor, Permission.SECRET_MANAGE)
    _note_grant(actor, grant, "secret.revoked")
    grant.delete()


def _note_grant(actor: User, grant: SecretGrant, action: str) -> None:
    detail = {"package": grant.package.name, "need": grant.need, "secret": grant.secret.name}
    record(actor=actor, action=action, subject=grant.secret, detail=detail)


@transaction.atomic
def set_connection(
    *,
    actor: User,
    app: str,
    owner: User | None,
    token: str | None,
    permissions: Iterable[str] = (),
    expires_at: datetime | None = None,
) -> Connection:
    """Give a member, or the company, a connection to another system, or a new token for it.

    Without a token the one that is there stays.
    """
    require(actor, Permission.CONNECTION_MANAGE)
    if len(app) > 80 or not _NAME.match(app):
        raise SecretRefused("An app has letters, digits, and . _ - between them.", field="app")
    found = Connection.objects.select_for_update().filter(app=app, owner=owner).first()
    connection = found or Connection(app=app, owner=owner)
    if token is not None:
        connection.sealed = seal(check_value(token), row=connection.key)
    elif found is None:
        raise SecretRefused("A new connection needs a token.", field="value")
    connection.permissions = sorted({one.strip() for one in permissions if one.strip()})
    connection.expires_at = expires_at
    connection.set_by, connection.set_at = actor, timezone.now()
    connection.save()
    _note_connection(actor, connection, "connection.set")
    return connection


@transaction.atomic
def remove_connection(*, actor: User, connection: Connection) -> None:
    """Remove a connection; what needs it is refused from then on."""
    require(actor, Permission.CONNECTION_MANAGE)
    _note_connection(actor, connection, "connection.removed")
    connection.delete()


def _note_connection(actor: User, connection: Connection, action: str) -> None:
    whose = connection.owner.key if connection.owner else "company"
    detail = {"app": connection.app, "owner": whose, "permissions": connection.permissions[:50]}
    record(actor=actor, action=action, subject=connection, detail=detail)


def reseal_all() -> int:
    """Seal every value anew that is not under the newest key; return how many there were."""
    count = 0
    for model in (Secret, Connection):
        for row_id in model.objects.values_list("pk", flat=True):
            with transaction.atomic():
                row = model.objects.select_for_update().filter(pk=row_id).first()
                if row is None or is_current(bytes(row.sealed)):
                    continue
                row.sealed = seal(unseal(row.sealed, row=row.key), row=row.key)
                row.save(update_fields=["sealed", "updated_at"])
                record(actor=SYSTEM, action="secret.resealed", subject=row)
                count += 1
    return count
