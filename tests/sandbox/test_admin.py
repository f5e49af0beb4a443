"""Administrators see how much workspaces hold and who works in them, not what they say."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.core.deadlines import Deadline
from apps.sandbox.contents import take_back
from apps.sandbox.leases import Lease, acquire, name_kernel, release, this_node
from apps.sandbox.spec import WorkChanges, WorkFile
from tests.factories.rooms import make_member, make_room

pytestmark = pytest.mark.django_db
SECRET = b"the words that only the owner may read"
LIST = "admin:sandbox_workspace_changelist"


@pytest.fixture
def desk(client: Client) -> Client:
    client.force_login(User.objects.create_user("ines", is_staff=True, is_superuser=True))
    return client


def held(member: User) -> Lease:
    lease = acquire(
        owner=member,
        room_id=make_room(member).pk,
        call_id=None,
        deadline=Deadline.after(60),
    )
    take_back(lease, WorkChanges(changed=(WorkFile("notes.txt", SECRET),)))
    return lease


def test_the_list_names_size_lease_and_node(desk: Client) -> None:
    lease = held(make_member())
    page = desk.get(reverse(LIST)).content.decode()
    assert all(word in page for word in ("in use", this_node(), str(len(SECRET))))
    name_kernel(lease, "node-with-a-kernel")
    release(lease)
    page = desk.get(reverse(LIST)).content.decode()
    assert "free" in page
    assert "node-with-a-kernel" in page
    assert SECRET.decode() not in page


def test_the_list_takes_the_same_queries_however_long_it_is(
    desk: Client, django_assert_max_num_queries: Any
) -> None:
    member = make_member()
    for _ in range(12):
        held(member)
    with django_assert_max_num_queries(12):
        assert desk.get(reverse(LIST)).status_code == 200


def test_the_page_of_one_shows_names_and_digests_and_no_bytes(
    desk: Client, django_assert_max_num_queries: Any
) -> None:
    lease = held(make_member())
    address = reverse("admin:sandbox_workspace_change", args=[lease.workspace.pk])
    with django_assert_max_num_queries(14):
        page = desk.get(address).content.decode()
    assert all(word in page for word in ("notes.txt", this_node(), "of 2,000"))
    assert SECRET.decode() not in page


def test_a_member_sees_no_such_page(client: Client) -> None:
    lease = held(make_member())
    client.force_login(make_member())
    for address in (
        reverse(LIST),
        reverse("admin:sandbox_workspace_change", args=[lease.workspace.pk]),
    ):
        assert client.get(address).status_code == 302
