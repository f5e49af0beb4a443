"""Administrators make members and shut them out; each step is written down."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.audit.models import AuditRow
from tests.factories.clients import client_of
from tests.factories.rooms import make_member

USERS = "/admin/accounts/user/"
STRONG = "correct horse battery 42"


@pytest.fixture
def ines(db: None) -> User:
    return User.objects.create_superuser("ines", password=STRONG)


@pytest.fixture
def admin(ines: User) -> Client:
    client = Client()
    client.force_login(ines)
    return client


def form(user: User, **changes: object) -> dict[str, object]:
    fields: dict[str, object] = {
        "username": user.username,
        "display_name": user.display_name,
        "first_name": "",
        "last_name": "",
        "email": "",
        "is_active": "on",
    }
    fields.update(changes)
    return {name: value for name, value in fields.items() if value is not None}


def test_an_administrator_makes_a_member(admin: Client, ines: User) -> None:
    assert admin.get(f"{USERS}add/").status_code == 200
    fields = {
        "username": "noor",
        "usable_password": "true",
        "password1": STRONG,
        "password2": STRONG,
    }
    response = admin.post(f"{USERS}add/", fields)
    assert response.status_code == 302, response.content
    noor = User.objects.get(username="noor")
    assert noor.check_password(STRONG)
    row = AuditRow.objects.get(action="user.created")
    assert (row.actor, row.subject) == (ines.key, noor.key)
    assert STRONG not in str(row.detail)


def test_shutting_a_member_out_ends_their_tokens(admin: Client) -> None:
    mara = make_member()
    program = client_of(mara)
    assert admin.get(f"{USERS}{mara.pk}/change/").status_code == 200
    response = admin.post(f"{USERS}{mara.pk}/change/", form(mara, is_active=None))
    assert response.status_code == 302, response.content
    mara.refresh_from_db()
    assert not mara.is_active
    assert program.get("/api/v1/auth/me").status_code == 401
    mara.is_active = True
    mara.save()
    # Letting them in again gives no old token its power back.
    assert program.get("/api/v1/auth/me").status_code == 401
    row = AuditRow.objects.get(action="user.changed")
    assert row.detail["fields"] == ["is_active"]


def test_a_new_password_ends_what_the_old_one_opened(admin: Client, ines: User) -> None:
    mara = make_member()
    program, browser = client_of(mara), Client()
    browser.force_login(mara)
    url = f"{USERS}{mara.pk}/password/"
    assert admin.get(url).status_code == 200
    wrong = {"usable_password": "true", "password1": STRONG, "password2": "other"}
    admin.post(url, wrong)
    assert program.get("/api/v1/auth/me").status_code == 200
    assert admin.post(url, {**wrong, "password2": STRONG}).status_code == 302
    assert program.get("/api/v1/auth/me").status_code == 401
    assert browser.get("/api/v1/auth/me").status_code == 401
    assert AuditRow.objects.filter(action="user.password_set", actor=ines.key).count() == 1


def test_nobody_is_deleted(admin: Client) -> None:
    mara = make_member()
    assert admin.post(f"{USERS}{mara.pk}/delete/", {"post": "yes"}).status_code == 403
    assert User.objects.filter(pk=mara.pk).exists()


def test_tokens_are_shown_and_revoked_and_nothing_else(admin: Client) -> None:
    mara = make_member()
    program = client_of(mara)
    page = admin.get("/admin/knox/authtoken/")
    assert page.status_code == 200
    assert admin.get("/admin/knox/authtoken/add/").status_code == 403
    pk = mara.auth_token_set.get().pk
    admin.post("/admin/knox/authtoken/", {"action": "revoke", "_selected_action": [pk]})
    assert program.get("/api/v1/auth/me").status_code == 401


def test_members_do_not_see_the_admin(db: None) -> None:
    client = Client()
    client.force_login(make_member())
    assert client.get(USERS).status_code == 302
