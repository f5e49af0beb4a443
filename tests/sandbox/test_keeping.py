"""A workspace is its owner's: to see, to take from, to delete; and it goes when nobody uses it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import override_settings
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.audit.models import AuditRow
from apps.core.deadlines import Deadline
from apps.domain.hashline import NoGrammar
from apps.rooms.models import Room
from apps.rooms.services import remove_participant
from apps.sandbox import keeping
from apps.sandbox.contents import take_back
from apps.sandbox.editing import edit_workspace, read_workspace
from apps.sandbox.errors import LeaseLost
from apps.sandbox.leases import Lease, acquire, hold, release
from apps.sandbox.models import FileSnapshot, Register, Workspace, WorkspaceFile
from apps.sandbox.models import Lease as LeaseRow
from apps.sandbox.spec import WorkChanges, WorkFile
from apps.sandbox.tasks import forget_workspaces
from tests.factories.clients import client_of, problem
from tests.factories.rooms import make_member, make_room

pytestmark = pytest.mark.django_db

HOSTILE = b"<script>alert(1)</script>"


@pytest.fixture
def member() -> User:
    return make_member()


@pytest.fixture
def guest() -> User:
    return make_member()


@pytest.fixture
def room(member: User, guest: User) -> Room:
    return make_room(member, None, guest)


@pytest.fixture
def api(member: User) -> APIClient:
    return client_of(member)


def take(member: User, room: Room) -> Lease:
    return acquire(
        owner=member, room_id=room.pk, call_id=None, deadline=Deadline.after(30), wait=0.0
    )


def fill(member: User, room: Room, *files: WorkFile) -> Workspace:
    with hold(owner=member, room_id=room.pk, call_id=None, deadline=Deadline.after(30)) as lease:
        take_back(lease, WorkChanges(changed=files))
        return lease.workspace


def place(room: Room, rest: str = "") -> str:
    return f"/api/v1/rooms/{room.pk}/workspace{rest}"


def test_a_member_sees_how_much_their_workspace_holds(
    api: APIClient, member: User, room: Room
) -> None:
    empty = api.get(place(room)).json()
    assert empty == {
        "files": 0,
        "bytes": 0,
        "most_files": 2_000,
        "most_bytes": 64 * 1024 * 1024,
        "busy": False,
        "updated_at": None,
    }
    fill(member, room, WorkFile("a", b"12345"), WorkFile("b", b""))
    seen = api.get(place(room)).json()
    assert (seen["files"], seen["bytes"], seen["busy"]) == (2, 5, False)
    lease = take(member, room)
    assert api.get(place(room)).json()["busy"] is True
    release(lease)
    assert api.get(place(room)).json()["busy"] is False


def test_files_are_listed_in_pages_in_the_order_of_their_paths(
    api: APIClient, member: User, room: Room
) -> None:
    fill(member, room, *(WorkFile(f"d/{n:03}", b"x", executable=n == 7) for n in range(120)))
    names: list[str] = []
    address: str | None = place(room, "/files?page_size=50")
    while address:
        page = api.get(address).json()
        names += [row["path"] for row in page["results"]]
        assert all(row["executable"] is (row["path"] == "d/007") for row in page["results"])
        address = page["next"]
    assert names == [f"d/{n:03}" for n in range(120)]


def test_a_file_is_handed_out_as_a_download_that_nothing_runs(
    api: APIClient, member: User, room: Room
) -> None:
    fill(member, room, WorkFile("out/páge & more.html", HOSTILE))
    response = api.get(place(room, "/content"), {"path": "out/páge & more.html"})
    assert response.status_code == 200
    assert response.getvalue() == HOSTILE
    assert response["Content-Type"] == "application/octet-stream"
    assert response["Content-Disposition"].startswith("attachment")
    assert "p%C3%A1ge%20%26%20more.html" in response["Content-Disposition"]
    assert response["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in response["Content-Security-Policy"]
    problem(api.get(place(room, "/content"), {"path": "out"}), 404, "not_found")
    problem(api.get(place(room, "/content"), {"path": "../a"}), 404, "not_found")
    assert api.get(place(room, "/content")).status_code == 422


def test_nobody_else_sees_it_however_they_ask(member: User, guest: User, room: Room) -> None:
    fill(member, room, WorkFile("secret", b"mine"))
    fill(guest, room, WorkFile("theirs", b"x"))
    other = client_of(guest)
    assert [row["path"] for row in other.get(place(room, "/files")).json()["results"]] == ["theirs"]
    problem(other.get(place(room, "/content"), {"path": "secret"}), 404, "not_found")
    stranger = client_of(make_member())
    for rest in ("", "/files", "/content?path=secret"):
        problem(stranger.get(place(room, rest)), 404, "not_found")
    problem(stranger.delete(place(room)), 404, "not_found")
    remove_participant(room_id=room.pk, actor=guest, username=guest.username)
    problem(other.get(place(room, "/content"), {"path": "theirs"}), 404, "not_found")
    assert WorkspaceFile.objects.count() == 2


def test_an_owner_deletes_a_workspace_with_all_that_is_remembered_of_it(
    api: APIClient, member: User, guest: User, room: Room
) -> None:
    fill(guest, room, WorkFile("theirs", b"x"))
    workspace = fill(member, room, WorkFile("a.txt", b"one\ntwo\n"), WorkFile("b", b"x"))
    deadline = Deadline.after(30)
    shown: Any = read_workspace(owner=member, room_id=room.pk, deadline=deadline, path="a.txt")
    edit_workspace(
        owner=member,
        room_id=room.pk,
        deadline=deadline,
        patch=f"[a.txt#{shown.tag}]\nCUT 1.=1 @kept",
        grammar=NoGrammar(),
    )
    assert (FileSnapshot.objects.exists(), Register.objects.exists()) == (True, True)
    assert api.delete(place(room)).status_code == 204
    assert list(Workspace.objects.values_list("owner", flat=True)) == [guest.pk]
    assert (FileSnapshot.objects.exists(), Register.objects.exists()) == (False, False)
    row = AuditRow.objects.get(action="workspace.deleted")
    assert (row.actor, row.subject) == (member.key, workspace.key)
    assert row.detail == {"owner": member.key, "room": room.key, "files": 2, "bytes": 5}
    problem(api.delete(place(room)), 404, "not_found")


def test_while_a_call_works_in_it_a_workspace_is_not_deleted(
    api: APIClient, member: User, room: Room
) -> None:
    fill(member, room, WorkFile("a", b"x"))
    lease = take(member, room)
    problem(api.delete(place(room)), 409, "workspace_in_use")
    take_back(lease, WorkChanges(changed=(WorkFile("b", b"y"),)), release_after=True)
    assert api.delete(place(room)).status_code == 204
    with pytest.raises(LeaseLost):
        take_back(lease, WorkChanges(changed=(WorkFile("c", b"z"),)))


def age(workspace: Workspace, days: float) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(updated_at=Now() - timedelta(days=days))


def test_a_workspace_that_nobody_uses_is_forgotten_and_that_is_recorded(
    member: User, guest: User, room: Room
) -> None:
    old = fill(member, room, WorkFile("a", b"12"))
    new = fill(guest, room, WorkFile("a", b"x"))
    age(old, 90.1)
    age(new, 89.9)
    forget_workspaces()
    assert list(Workspace.objects.all()) == [new]
    row = AuditRow.objects.get(action="workspace.forgotten")
    assert (row.actor, row.subject) == ("system:kaizen", old.key)
    assert row.detail == {"owner": member.key, "room": room.key, "files": 1, "bytes": 2}


def test_a_workspace_of_a_closed_room_is_forgotten_a_week_later(
    member: User, guest: User, room: Room
) -> None:
    elsewhere = fill(member, make_room(member), WorkFile("a", b"x"))
    workspace = fill(member, room, WorkFile("a", b"x"))
    just_used = fill(guest, room, WorkFile("a", b"x"))
    for one in (elsewhere, workspace):
        age(one, 8)
    assert keeping.forget_workspaces(days=0) == 0
    Room.objects.filter(pk=room.pk).update(closed_at=Now() - timedelta(days=6))
    assert keeping.forget_workspaces(days=0) == 0
    Room.objects.filter(pk=room.pk).update(closed_at=Now() - timedelta(days=8))
    assert keeping.forget_workspaces(days=0) == 1
    assert set(Workspace.objects.all()) == {elsewhere, just_used}


def test_a_workspace_in_use_is_not_forgotten_and_zero_days_keep_it_for_ever(
    member: User, room: Room
) -> None:
    workspace = fill(member, room, WorkFile("a", b"x"))
    lease = take(member, room)
    age(workspace, 1_000)
    assert keeping.forget_workspaces(days=1) == 0
    release(lease)
    with override_settings(KAIZEN_WORKSPACE_DAYS=0):
        forget_workspaces()
    assert Workspace.objects.count() == 1
    assert keeping.forget_workspaces(days=1) == 1
    assert not LeaseRow.objects.exists()


def test_each_use_counts(member: User, room: Room) -> None:
    workspace = fill(member, room, WorkFile("a.txt", b"x\n"))
    for use in (
        lambda: fill(member, room),
        lambda: read_workspace(
            owner=member, room_id=room.pk, deadline=Deadline.after(30), path="a.txt"
        ),
    ):
        age(workspace, 1_000)
        use()
        assert keeping.forget_workspaces(days=1) == 0
