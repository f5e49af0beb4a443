"""Granting a secret costs the same with ten thousand packages as with one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.broker.models import Secret, SecretGrant
from apps.packages.models import Package
from tests.factories.rooms import make_member

pytestmark = pytest.mark.django_db
MANY = 10_000
ADD = "admin:broker_secretgrant_add"


@pytest.fixture(scope="module", autouse=True)
def many(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Ten thousand packages and secrets, made once for this file and never committed."""
    with django_db_blocker.unblock(), transaction.atomic():
        author = make_member("author-of-many")
        numbers, now = range(MANY), timezone.now()
        packages = Package.objects.bulk_create(
            Package(name=f"pack-{number:05}", author=author) for number in numbers
        )
        secrets = Secret.objects.bulk_create(
            Secret(name=f"secret-{number:05}", set_by=author, set_at=now, sealed=b"x")
            for number in numbers
        )
        SecretGrant.objects.bulk_create(
            SecretGrant(package=package, need="key", secret=secret, granted_by=author)
            for package, secret in zip(packages[1:], secrets[1:], strict=True)
        )
        yield
        transaction.set_rollback(True)


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("ines", password="a long enough secret"))
    return client


def asked(desk: Client, address: str, **query: str) -> tuple[int, str]:
    """Open a page; return how many statements it took, and the page."""
    desk.get(address, query)
    with CaptureQueriesContext(connection) as captured:
        answer = desk.get(address, query)
    assert answer.status_code == 200
    return len(captured), answer.content.decode()


def test_the_form_loads_no_package_and_no_secret(desk: Client) -> None:
    statements, page = asked(desk, reverse(ADD))
    assert statements <= 6
    assert "pack-0" not in page
    assert "secret-0" not in page


@pytest.mark.parametrize(
    ("field", "term", "found"),
    [("package", "pack-00042", "pack-00042"), ("secret", "secret-09999", "secret-09999")],
)
def test_both_are_found_as_one_types(desk: Client, field: str, term: str, found: str) -> None:
    where = {"app_label": "broker", "model_name": "secretgrant", "field_name": field}
    statements, page = asked(desk, reverse("admin:autocomplete"), term=term, **where)
    assert found in page
    assert statements <= 6


def test_what_was_found_is_granted(desk: Client) -> None:
    package, secret = Package.objects.get(name="pack-00000"), Secret.objects.first()
    assert secret is not None
    fields = {"package": str(package.pk), "need": "token", "secret": str(secret.pk)}
    assert desk.post(reverse(ADD), fields).status_code == 302
    assert SecretGrant.objects.get(package=package).secret == secret


def test_the_list_of_grants_names_no_package_that_it_does_not_show(desk: Client) -> None:
    statements, page = asked(desk, reverse("admin:broker_secretgrant_changelist"))
    assert statements <= 10
    assert page.count("pack-0") < 1_000
