"""Secrets go in and never come out; packages use only what they were granted."""

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core.management import call_command
from django.db import IntegrityError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.audit.models import AuditRow
from apps.broker.errors import (
    ConnectionMissing,
    SealBroken,
    SecretMissing,
    SecretNotFound,
    SecretRefused,
)
from apps.broker.models import Connection, Secret, SecretGrant
from apps.broker.selectors import connection_of, secret_for, token_of
from apps.broker.services import (
    grant_secret,
    remove_connection,
    remove_secret,
    revoke_secret,
    set_connection,
    set_secret,
)
from apps.core.errors import Forbidden
from apps.packages.models import Package
from tests.factories.rooms import make_member

pytestmark = pytest.mark.django_db
VALUE = "a-very-secret-value-1"


@pytest.fixture
def ines(db: None) -> User:
    return User.objects.create_superuser("ines", password="x")


@pytest.fixture
def package(ines: User) -> Package:
    return Package.objects.create(name="notes", author=ines)


@pytest.fixture
def secret(ines: User) -> Secret:
    return set_secret(actor=ines, name="notes-key", value=VALUE, note="for the notes")


def everything_stored() -> str:
    stored = [bytes(one.sealed) for one in (*Secret.objects.all(), *Connection.objects.all())]
    return str(stored) + str(list(AuditRow.objects.values()))


def test_a_value_is_sealed_and_written_down_nowhere(secret: Secret) -> None:
    assert VALUE not in everything_stored()
    row = AuditRow.objects.get(action="secret.set")
    assert (row.actor, row.detail) == (secret.set_by.key, {"name": "notes-key"})


def test_a_package_gets_what_it_was_granted_under_its_own_name(
    ines: User, package: Package, secret: Secret
) -> None:
    with pytest.raises(SecretMissing, match="none was granted"):
        secret_for(package="notes", need="KEY")
    grant = grant_secret(actor=ines, package=package, need="KEY", secret=secret)
    assert secret_for(package="notes", need="KEY") == VALUE
    for package_name, need in (("other", "KEY"), ("notes", "notes-key"), ("notes", "key")):
        with pytest.raises(SecretMissing):
            secret_for(package=package_name, need=need)
    revoke_secret(actor=ines, grant=grant)
    with pytest.raises(SecretMissing):
        secret_for(package="notes", need="KEY")
    told = AuditRow.objects.filter(action__in=("secret.granted", "secret.revoked"))
    assert [row.detail for row in told] == [
        {"package": "notes", "need": "KEY", "secret": "notes-key"}
    ] * 2


def test_another_value_takes_the_place_of_the_first(ines: User, secret: Secret) -> None:
    before = bytes(secret.sealed)
    changed = set_secret(actor=ines, name="notes-key", value="another-value")
    assert changed.pk == secret.pk
    assert bytes(Secret.objects.get().sealed) != before
    assert AuditRow.objects.filter(action="secret.changed").exists()


def test_removing_a_secret_removes_its_grants(ines: User, package: Package, secret: Secret) -> None:
    grant_secret(actor=ines, package=package, need="KEY", secret=secret)
    remove_secret(actor=ines, name="notes-key")
    assert not Secret.objects.exists()
    assert not SecretGrant.objects.exists()
    assert AuditRow.objects.get(action="secret.removed").detail["packages"] == ["notes"]
    with pytest.raises(SecretNotFound):
        remove_secret(actor=ines, name="notes-key")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "short",
        "x" * 8193,
        "two\nlines-of-it",
        "with\x00nul-in-it",
        " blank-before",
        "umlaut-ä-x",
    ],
)
def test_a_value_that_no_request_can_carry_is_refused(ines: User, value: str) -> None:
    with pytest.raises(SecretRefused):
        set_secret(actor=ines, name="key", value=value)


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "x" * 65, "a..b"])
def test_a_name_is_plain(ines: User, name: str) -> None:
    with pytest.raises(SecretRefused):
        set_secret(actor=ines, name=name, value=VALUE)


def test_a_member_sets_and_grants_nothing(package: Package, secret: Secret) -> None:
    mara = make_member("mara")
    with pytest.raises(Forbidden):
        set_secret(actor=mara, name="x", value=VALUE)
    with pytest.raises(Forbidden):
        grant_secret(actor=mara, package=package, need="KEY", secret=secret)
    with pytest.raises(Forbidden):
        set_connection(actor=mara, app="post", owner=mara, token=VALUE)


def test_a_sealed_value_opens_for_its_own_row_only(ines: User, secret: Secret) -> None:
    other = set_secret(actor=ines, name="other", value="of-no-interest")
    package = Package.objects.create(name="notes", author=ines)
    grant_secret(actor=ines, package=package, need="KEY", secret=other)
    Secret.objects.filter(pk=other.pk).update(sealed=secret.sealed)
    with pytest.raises(SealBroken, match="another row"):
        secret_for(package="notes", need="KEY")


def test_keys_rotate_and_old_ones_open_as_long_as_they_are_kept(
    ines: User, package: Package, secret: Secret, settings: Any
) -> None:
    grant_secret(actor=ines, package=package, need="KEY", secret=secret)
    set_connection(actor=ines, app="post", owner=None, token=VALUE)
    old = settings.SECRET_KEY
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "n" * 60, [old]
    assert secret_for(package="notes", need="KEY") == VALUE
    out = StringIO()
    call_command("secrets", "reseal", stdout=out)
    assert out.getvalue().startswith("2 values")
    settings.SECRET_KEY_FALLBACKS = []
    assert secret_for(package="notes", need="KEY") == VALUE
    out = StringIO()
    call_command("secrets", "reseal", stdout=out)
    assert out.getvalue().startswith("0 values")
    settings.SECRET_KEY = "m" * 60
    with pytest.raises(SealBroken, match="KAIZEN_SECRET_KEY"):
        secret_for(package="notes", need="KEY")


# --- connections


def test_a_connection_is_a_person_s_own_or_the_company_s(ines: User) -> None:
    mara, tomas = make_member("mara"), make_member("tomas")
    own = set_connection(
        actor=ines, app="post", owner=mara, token="token-of-mara", permissions=["read", "send"]
    )
    ours = set_connection(actor=ines, app="post", owner=None, token="token-of-company")
    assert connection_of(app="post", permissions=["read"], member=mara) == own
    assert connection_of(app="post", permissions=[], member=None) == ours
    assert (token_of(str(own.pk)), token_of(str(ours.pk))) == ("token-of-mara", "token-of-company")
    with pytest.raises(ConnectionMissing):
        connection_of(app="post", permissions=[], member=tomas)
    with pytest.raises(ConnectionMissing, match="does not cover delete"):
        connection_of(app="post", permissions=["read", "delete"], member=mara)
    assert "token-of" not in everything_stored()


def test_a_connection_ends_with_its_time_and_with_its_removal(ines: User) -> None:
    gone = timezone.now() - timedelta(seconds=1)
    connection = set_connection(
        actor=ines, app="post", owner=None, token="a-token-value", expires_at=gone
    )
    for ask in (
        lambda: token_of(str(connection.pk)),
        lambda: connection_of(app="post", permissions=[], member=None),
    ):
        with pytest.raises(ConnectionMissing):
            ask()
    set_connection(actor=ines, app="post", owner=None, token=None)
    assert token_of(str(connection.pk)) == "a-token-value"
    remove_connection(actor=ines, connection=connection)
    assert not Connection.objects.exists()
    assert AuditRow.objects.filter(action="connection.removed").exists()


def test_the_company_has_one_connection_to_an_app(ines: User) -> None:
    first = set_connection(actor=ines, app="post", owner=None, token="a-token-value")
    assert set_connection(actor=ines, app="post", owner=None, token="b-token-value") == first
    with pytest.raises(IntegrityError):
        Connection.objects.create(app="post", sealed=b"", set_by=ines, set_at=timezone.now())


# --- the pages


@pytest.fixture
def client(ines: User) -> Client:
    client = Client()
    client.force_login(ines)
    return client


def test_an_administrator_sets_a_secret_and_never_sees_it(client: Client, ines: User) -> None:
    add = reverse("admin:broker_secret_add")
    assert client.get(add).status_code == 200
    sent = client.post(add, {"name": "post-key", "note": "for post", "value": VALUE})
    assert sent.status_code == 302, sent.content
    secret = Secret.objects.get()
    page = reverse("admin:broker_secret_change", args=[secret.pk])
    seen = (
        client.get(page).content.decode()
        + client.get(reverse("admin:broker_secret_changelist")).content.decode()
    )
    assert "post-key" in seen
    assert "ines" in seen
    assert VALUE not in seen
    # Only the note changes where no value is given.
    assert client.post(page, {"note": "changed", "value": ""}).status_code == 302
    assert Secret.objects.get().note == "changed"
    assert AuditRow.objects.filter(action="secret.described").count() == 1
    assert bytes(Secret.objects.get().sealed) == bytes(secret.sealed)
    assert client.post(page, {"note": "changed", "value": "another-value"}).status_code == 302
    assert bytes(Secret.objects.get().sealed) != bytes(secret.sealed)
    refused = client.post(add, {"name": "x", "note": "", "value": "two\nlines-of-a-value"})
    assert "one line" in refused.content.decode()
    assert "two" not in refused.content.decode().replace("two people", "")


def test_an_administrator_grants_and_takes_back(
    client: Client, package: Package, secret: Secret
) -> None:
    add = reverse("admin:broker_secretgrant_add")
    sent = client.post(add, {"package": package.pk, "need": "KEY", "secret": secret.pk})
    assert sent.status_code == 302, sent.content
    assert secret_for(package="notes", need="KEY") == VALUE
    listed = client.get(reverse("admin:broker_secret_changelist")).content.decode()
    assert "notes" in listed
    grant = SecretGrant.objects.get()
    gone = reverse("admin:broker_secretgrant_delete", args=[grant.pk])
    assert client.post(gone, {"post": "yes"}).status_code == 302
    assert not SecretGrant.objects.exists()
    grant_secret(actor=secret.set_by, package=package, need="KEY", secret=secret)
    removed = reverse("admin:broker_secret_delete", args=[secret.pk])
    assert client.post(removed, {"post": "yes"}).status_code == 302
    assert not Secret.objects.exists()
    assert not LogEntry.objects.exists()


def test_an_administrator_sets_a_connection(client: Client, ines: User) -> None:
    add = reverse("admin:broker_connection_add")
    fields = {"app": "post", "owner": "", "covers": "read send", "value": "a-token-value",
              "expires_at_0": "", "expires_at_1": ""}  # fmt: skip
    assert client.post(add, fields).status_code == 302
    connection = Connection.objects.get()
    assert (connection.owner, connection.permissions) == (None, ["read", "send"])
    page = reverse("admin:broker_connection_change", args=[connection.pk])
    seen = (
        client.get(page).content.decode()
        + client.get(reverse("admin:broker_connection_changelist")).content.decode()
    )
    assert "read send" in seen
    assert "a-token-value" not in seen
    sent = client.post(
        page, {"covers": "read", "value": "", "expires_at_0": "", "expires_at_1": ""}
    )
    assert sent.status_code == 302, sent.content
    assert Connection.objects.get().permissions == ["read"]
    assert token_of(str(connection.pk)) == "a-token-value"


def test_a_member_sees_none_of_these_pages(db: None) -> None:
    mara = make_member("mara")
    client = Client()
    client.force_login(mara)
    for name in ("secret", "secretgrant", "connection"):
        assert client.get(reverse(f"admin:broker_{name}_changelist")).status_code in (302, 403)
