"""Administrators make members and shut them out; each step is written down."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission
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


def test_ones_own_new_password_ends_what_the_old_one_opened(admin: Client, ines: User) -> None:
    program, browser = client_of(ines), Client()
    browser.force_login(ines)
    url = "/admin/password_change/"
    assert "Kaizen" in admin.get(url).content.decode()
    fields = {"old_password": "wrong", "new_password1": STRONG + "x", "new_password2": STRONG + "x"}
    assert admin.post(url, fields).status_code == 200
    assert program.get("/api/v1/auth/me").status_code == 200
    assert admin.post(url, {**fields, "old_password": STRONG}).status_code == 302
    assert admin.get(USERS).status_code == 200
    assert program.get("/api/v1/auth/me").status_code == 401
    assert browser.get("/api/v1/auth/me").status_code == 401
    assert AuditRow.objects.filter(action="user.password_set", actor=ines.key).count() == 1
    assert Client().get(url).status_code == 302


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


@pytest.fixture
def keeper(db: None) -> Client:
    """Somebody whose only duty is to look after members."""
    user = User.objects.create_user("keeper", is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(
            codename__in=["view_user", "add_user", "change_user", "view_group", "change_group"]
        )
    )
    client = Client()
    client.force_login(user)
    return client


def test_who_looks_after_members_gives_no_duties(keeper: Client, ines: User) -> None:
    mara = make_member()
    own = User.objects.get(username="keeper")
    duties = {"is_staff": "on", "is_superuser": "on"}
    rights = [row.pk for row in Permission.objects.all()]
    answer = keeper.post(
        f"{USERS}{mara.pk}/change/", form(mara, display_name="M", **duties, user_permissions=rights)
    )
    assert answer.status_code == 302
    mara.refresh_from_db()
    assert mara.display_name == "M"
    assert not mara.is_staff
    assert not mara.is_superuser
    assert not mara.user_permissions.exists()
    for other in (own, ines):
        keeper.post(f"{USERS}{other.pk}/change/", form(other, **duties))
        answer = keeper.post(
            f"{USERS}{other.pk}/password/",
            {"usable_password": "true", "password1": STRONG + "x", "password2": STRONG + "x"},
        )
        assert answer.status_code == 403
        other.refresh_from_db()
        assert not other.check_password(STRONG + "x")
    own.refresh_from_db()
    assert not own.is_superuser
    program = client_of(ines)
    keeper.post(USERS, {"action": "revoke_tokens", "_selected_action": [ines.pk]})
    assert program.get("/api/v1/auth/me").status_code == 200


def test_groups_of_duties_are_changed_by_superusers_and_that_is_written_down(
    keeper: Client, admin: Client, ines: User
) -> None:
    group = Group.objects.create(name="reviewers")
    address = f"/admin/auth/group/{group.pk}/change/"
    right = Permission.objects.get(codename="review_packageproposal")
    fields = {"name": "reviewers", "permissions": [right.pk]}
    assert keeper.post(address, fields).status_code == 403
    assert not group.permissions.exists()
    assert admin.post(address, fields).status_code == 302
    assert group.permissions.get() == right
    row = AuditRow.objects.get(action="group.changed")
    assert (row.actor, row.subject) == (ines.key, f"group:{group.pk}")
    assert row.detail["fields"] == ["permissions"]
    assert admin.post(f"/admin/auth/group/{group.pk}/delete/", {"post": "yes"}).status_code == 302
    assert AuditRow.objects.filter(action="group.deleted").count() == 1
