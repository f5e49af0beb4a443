"""What lies in a workspace are rows and blobs: all of a call's changes come in, or none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.core.blobs import collect_blobs
from apps.core.deadlines import Deadline
from apps.core.models import Blob
from apps.sandbox import contents as module
from apps.sandbox.contents import contents, sizes_of, take_back
from apps.sandbox.errors import WorkspaceFull
from apps.sandbox.leases import Lease, acquire
from apps.sandbox.models import Lease as LeaseRow
from apps.sandbox.models import Workspace
from apps.sandbox.spec import LeftOut, WorkChanges, WorkFile
from tests.factories.rooms import make_member, make_room
from tests.sandbox.processes import said_elsewhere

pytestmark = pytest.mark.django_db


@pytest.fixture
def lease() -> Lease:
    member = make_member()
    return acquire(
        owner=member,
        room_id=make_room(member).pk,
        call_id=None,
        deadline=Deadline.after(60),
    )


def put(lease: Lease, *files: WorkFile, removed: tuple[str, ...] = ()) -> None:
    take_back(lease, WorkChanges(changed=files, removed=removed))


def test_what_a_call_left_is_what_the_next_one_finds(lease: Lease) -> None:
    first = (WorkFile("a.py", b"print(1)\n"), WorkFile("bin/run", b"#!/bin/sh\n", executable=True))
    put(lease, *first)
    assert contents(lease.workspace) == first
    put(lease, WorkFile("a.py", b"\x00\xff", executable=True), removed=("bin/run",))
    assert contents(lease.workspace) == (WorkFile("a.py", b"\x00\xff", executable=True),)
    assert contents(lease.workspace, ["b", "bin/run"]) == ()


def test_sizes_are_kept_with_the_workspace(lease: Lease) -> None:
    put(lease, WorkFile("a", b"12345"), WorkFile("b", b"1"))
    put(lease, WorkFile("a", b"123"), removed=("b", "never-there"))
    row = Workspace.objects.get(pk=lease.workspace.pk)
    assert (row.files_count, row.files_bytes) == sizes_of(row) == (1, 3)


def test_what_was_left_out_stays_as_it_was(lease: Lease) -> None:
    put(lease, WorkFile("a", b"kept"))
    take_back(lease, WorkChanges(left_out=(LeftOut("a", "link"),), left_out_total=1))
    assert contents(lease.workspace) == (WorkFile("a", b"kept"),)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (WorkChanges(over="too_many_files"), "more than 2,000 files"),
        (WorkChanges(over="too_many_bytes"), "more than 64 MiB"),
        (WorkChanges(over="something else"), "more than it may"),
        (WorkChanges((WorkFile("a/b", b"x"),)), "file and a folder"),
        (WorkChanges((WorkFile("A", b"x"),)), "clash"),
        (WorkChanges((WorkFile("../x", b"x"),)), "part"),
    ],
)
def test_what_no_workspace_holds_leaves_the_old_state(
    lease: Lease, changes: WorkChanges, words: str
) -> None:
    put(lease, WorkFile("a", b"before"))
    with pytest.raises(WorkspaceFull, match=words) as refused:
        take_back(lease, changes)
    assert "stay as they were" in str(refused.value)
    assert contents(lease.workspace) == (WorkFile("a", b"before"),)


def test_the_bounds_are_of_the_whole_workspace(
    lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 3)
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    monkeypatch.setattr(module, "MAX_FILE", 6)
    put(lease, WorkFile("a", b"12345"), WorkFile("b", b"12345"))
    with pytest.raises(WorkspaceFull, match="11 bytes"):
        put(lease, WorkFile("c", b"1"))
    put(lease, WorkFile("c", b"1"), WorkFile("a", b"1234"))
    with pytest.raises(WorkspaceFull, match="4 files"):
        put(lease, WorkFile("d", b""))
    put(lease, WorkFile("d", b""), removed=("c",))
    with pytest.raises(WorkspaceFull, match="more than 6 bytes"):
        put(lease, WorkFile("a", b"1234567"), removed=("b",))
    assert [file.name for file in contents(lease.workspace)] == ["a", "b", "d"]


def test_a_lease_may_end_with_what_it_brings(lease: Lease) -> None:
    take_back(lease, WorkChanges((WorkFile("a", b""),)), release_after=True)
    assert LeaseRow.objects.get(pk=lease.workspace.pk).expires_at is None


def test_bodies_are_shared_and_kept_as_long_as_a_file_needs_them(lease: Lease) -> None:
    put(lease, WorkFile("a", b"same"), WorkFile("b", b"same"), WorkFile("c", b"other"))
    assert Blob.objects.count() == 2
    put(lease, removed=("b", "c"))
    Blob.objects.update(touched_at=Now() - timedelta(days=3))
    collect_blobs()
    assert contents(lease.workspace) == (WorkFile("a", b"same"),)
    Workspace.objects.all().delete()
    Blob.objects.update(touched_at=Now() - timedelta(days=3))
    collect_blobs()
    assert not Blob.objects.exists()


def test_bringing_back_takes_no_work_for_each_row(
    lease: Lease, django_assert_max_num_queries: Callable[[int], Any]
) -> None:
    put(lease, *(WorkFile(f"d/{n}", str(n).encode()) for n in range(600)))
    with django_assert_max_num_queries(14):
        put(lease, *(WorkFile(f"d/{n}", str(-n).encode()) for n in range(600)))
    with django_assert_max_num_queries(2):
        assert len(contents(lease.workspace)) == 600


@pytest.mark.django_db(transaction=True)
def test_files_outlive_the_worker_and_its_node(lease: Lease) -> None:
    put(lease, WorkFile("a", b"one"), WorkFile("bin/b", b"two", executable=True))
    said = said_elsewhere(f"""
from apps.sandbox.contents import contents
from apps.sandbox.models import Workspace
print([tuple(file) for file in contents(Workspace.objects.get(pk="{lease.workspace.pk}"))])
""")
    assert said == "[('a', b'one', False), ('bin/b', b'two', True)]\n"


NAMES = st.sampled_from(["a", "b", "c/d", "c/e", "f/g/h"])
FILES = st.builds(WorkFile, NAMES, st.binary(max_size=20), st.booleans())


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.lists(FILES, max_size=5, unique_by=lambda file: file.name),
            st.lists(NAMES, max_size=3, unique=True),
        ),
        max_size=4,
    )
)
def test_any_row_of_changes_leaves_what_a_folder_would_hold(
    lease: Lease, steps: list[tuple[list[WorkFile], list[str]]]
) -> None:
    put(lease, removed=tuple(file.name for file in contents(lease.workspace)))
    folder: dict[str, WorkFile] = {}
    for changed, removed in steps:
        put(lease, *changed, removed=tuple(removed))
        for name in removed:
            folder.pop(name, None)
        folder.update((file.name, file) for file in changed)
        assert contents(lease.workspace) == tuple(folder[name] for name in sorted(folder))
        row = Workspace.objects.get(pk=lease.workspace.pk)
        assert (row.files_count, row.files_bytes) == sizes_of(row)
