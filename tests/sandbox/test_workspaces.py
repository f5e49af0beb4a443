"""What was shown and cut is remembered outside the workspace, for its owner and for nobody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.core.blobs import collect_blobs
from apps.core.models import Blob
from apps.domain.hashline import MAX_FILE_BYTES, Edited, NoGrammar, Refused, Rule, View
from apps.rooms.models import Room
from apps.sandbox import memory
from apps.sandbox.errors import FileRefused, MemoryMovedOn, WorkspaceNotFound
from apps.sandbox.models import FileSnapshot, Register, Workspace
from apps.sandbox.workspaces import edit_files, open_workspace, show_file
from tests.factories.rooms import make_member, make_room

pytestmark = pytest.mark.django_db

TEN = "".join(f"row {number}\n" for number in range(1, 11))


class Files:
    """Files somewhere, reached the way the service is given."""

    def __init__(self, member: User, room: Room, **files: str) -> None:
        self.member = member
        self.files = {name.replace("_", "."): content for name, content in files.items()}
        self.workspace = open_workspace(owner=member, room_id=room.pk)
        self.broken = False
        self.reads = 0

    def read(self, paths: Sequence[str]) -> Mapping[str, str]:
        self.reads += 1
        return {path: self.files[path] for path in paths if path in self.files}

    def write(self, result: Edited) -> None:
        if self.broken:
            raise OSError("The disk is full.")
        for path in result.removals:
            del self.files[path]
        self.files.update(result.writes)

    def show(self, path: str, **window: int) -> View:
        return show_file(
            workspace_id=self.workspace.pk,
            owner=self.member,
            path=path,
            content=self.files[path],
            **window,
        )

    def edit(self, patch: str, **ways: Any) -> Edited | Refused:
        ways = {"read": self.read, "write": self.write, **ways}
        return edit_files(
            workspace_id=self.workspace.pk,
            owner=self.member,
            patch=patch,
            grammar=NoGrammar(),
            **ways,
        )

    def done(self, patch: str) -> Edited:
        result = self.edit(patch)
        assert isinstance(result, Edited), result
        return result

    def refused(self, patch: str) -> Refused:
        result = self.edit(patch)
        assert isinstance(result, Refused), result
        return result


@pytest.fixture
def member() -> User:
    return make_member()


@pytest.fixture
def room(member: User) -> Room:
    return make_room(member)


@pytest.fixture
def files(member: User, room: Room) -> Files:
    return Files(member, room, a_txt=TEN, b_txt="one\ntwo\n")


def test_a_file_is_edited_under_the_tag_that_its_read_gave(files: Files) -> None:
    shown = files.show("a.txt", first=1, count=3)
    assert files.refused(f"[a.txt#{shown.tag}]\nPUT 7.=7:\n+x").rule is Rule.UNSEEN_LINES
    files.done(f"[a.txt#{shown.tag}]\nPUT 2.=2:\n+two")
    assert files.files["a.txt"] == TEN.replace("row 2\n", "two\n")


def test_the_memory_outlives_whoever_worked_with_it(files: Files, member: User, room: Room) -> None:
    tag = files.show("a.txt").tag
    files.done(f"[a.txt#{tag}]\nCUT 2.=3 @kept")
    # Another worker, another node, a new place for the files: only the rows are the same.
    elsewhere = Files(member, room, a_txt="new\n" + files.files["a.txt"], b_txt="one\ntwo\n")
    assert elsewhere.workspace == files.workspace
    elsewhere.done(f"[a.txt#{tag}]\nPUT 9.=9:\n+nine")
    assert elsewhere.files["a.txt"].startswith("new\nrow 1\nrow 4\n")
    assert "row 8\nnine\nrow 10\n" in elsewhere.files["a.txt"]
    other = elsewhere.show("b.txt").tag
    elsewhere.done(f"[b.txt#{other}]\nPUT >1 @kept")
    assert elsewhere.files["b.txt"] == "one\nrow 2\nrow 3\ntwo\n"


def test_four_texts_of_a_path_are_kept_the_newest_first(files: Files) -> None:
    tags = []
    for number in range(6):
        files.files["a.txt"] = f"{TEN}{number}\n"
        tags.append(files.show("a.txt").tag)
    rows = FileSnapshot.objects.filter(path="a.txt").order_by("-position")
    assert [row.tag for row in rows] == tags[:1:-1]
    assert files.refused(f"[a.txt#{tags[1]}]\nPUT 2.=2:\n+x").rule is Rule.UNKNOWN_TAG
    files.done(f"[a.txt#{tags[3]}]\nPUT 2.=2:\n+x")


def test_nobody_else_reaches_the_memory(files: Files, member: User) -> None:
    guest = make_member()
    room = make_room(member, None, guest)
    tag = files.show("a.txt").tag
    for workspace in (files.workspace, Workspace.objects.create(owner=member, room=room)):
        with pytest.raises(WorkspaceNotFound):
            edit_files(
                workspace_id=workspace.pk,
                owner=guest,
                patch=f"[a.txt#{tag}]\nREM",
                read=files.read,
                write=files.write,
            )
        with pytest.raises(WorkspaceNotFound):
            show_file(workspace_id=workspace.pk, owner=guest, path="a.txt", content="x")
    with pytest.raises(WorkspaceNotFound):
        open_workspace(owner=make_member(), room_id=room.pk)
    theirs = Files(guest, room, a_txt=TEN)
    assert theirs.refused(f"[a.txt#{tag}]\nPUT 1.=1:\n+x").rule is Rule.UNKNOWN_TAG
    mine = Files(member, room, a_txt=TEN)
    assert mine.refused(f"[a.txt#{tag}]\nPUT 1.=1:\n+x").rule is Rule.UNKNOWN_TAG


def test_files_that_cannot_be_written_leave_the_memory_as_it_was(files: Files) -> None:
    tag = files.show("a.txt").tag
    files.broken = True
    with pytest.raises(OSError, match="full"):
        files.edit(f"[a.txt#{tag}]\nCUT 1.=2 @kept")
    assert not Register.objects.exists()
    assert FileSnapshot.objects.count() == 1
    files.broken = False
    files.done(f"[a.txt#{tag}]\nCUT 1.=2 @kept")
    assert Register.objects.get().name == "kept"


def test_a_refusal_writes_no_file_and_remembers_what_it_showed(files: Files) -> None:
    tag = files.show("a.txt", first=1, count=1).tag
    patch = f"[a.txt#{tag}]\nPUT 5.=5:\n+x"
    assert files.refused(patch).shown == "5:row 5"
    files.done(patch)


def test_of_two_calls_at_once_the_later_is_worked_out_anew(files: Files) -> None:
    tag = files.show("a.txt").tag

    def read(paths: Sequence[str]) -> Mapping[str, str]:
        found = files.read(paths)
        if files.reads == 1:
            files.done(f"[a.txt#{tag}]\nPUT 1.=1:\n+first")
        return found

    result = files.edit(f"[a.txt#{tag}]\nPUT 9.=9:\n+second", read=read)
    assert isinstance(result, Edited)
    assert "first\nrow 2" in files.files["a.txt"]
    assert "row 8\nsecond\n" in files.files["a.txt"]


def test_a_call_that_never_gets_its_turn_says_so(files: Files) -> None:
    tag = files.show("a.txt").tag

    def read(paths: Sequence[str]) -> Mapping[str, str]:
        found = files.read(paths)
        files.show("b.txt")
        return found

    before = dict(files.files)
    with pytest.raises(MemoryMovedOn):
        files.edit(f"[a.txt#{tag}]\nPUT 9.=9:\n+x", read=read)
    assert files.files == before


def test_a_moved_file_takes_its_texts_along(files: Files) -> None:
    tag = files.show("a.txt").tag
    files.done(f"[a.txt#{tag}]\nMV sub/c.txt")
    assert set(FileSnapshot.objects.values_list("path", flat=True)) == {"sub/c.txt"}
    files.done(f"[sub/c.txt#{tag}]\nPUT 1.=1:\n+x")
    files.done(f"[sub/c.txt#{files.show('sub/c.txt').tag}]\nREM")
    assert not FileSnapshot.objects.exists()


def test_nothing_is_moved_onto_a_file_that_was_never_read(files: Files) -> None:
    tag = files.show("a.txt").tag
    assert files.refused(f"[a.txt#{tag}]\nMV b.txt").rule is Rule.DESTINATION_EXISTS
    assert files.refused(f"[a.txt#{tag}]\nMV b.txt/c").rule is Rule.DESTINATION_EXISTS


def test_a_file_read_under_another_folder_is_meant(files: Files) -> None:
    files.files["src/deep/d.txt"] = "x\n"
    tag = files.show("src/deep/d.txt").tag
    files.done(f"[d.txt#{tag}]\nPUT 1.=1:\n+y")
    assert files.files["src/deep/d.txt"] == "y\n"


def test_a_patch_that_cannot_be_read_reads_no_file(files: Files) -> None:
    assert files.refused("PUT 1.=1:\n+x").rule is Rule.MISSING_SECTION_HEADER
    assert files.refused("[../a.txt#0000]\nREM").rule is Rule.BAD_PATH
    assert files.reads == 0


@pytest.mark.parametrize(
    ("path", "content", "rule"),
    [
        ("../a.txt", "x", "bad_path"),
        ("a.txt", "x" * (MAX_FILE_BYTES + 1), "file_too_large"),
        ("a.txt", "\ud800", "not_text"),
    ],
)
def test_what_cannot_be_edited_is_not_shown(
    files: Files, path: str, content: str, rule: str
) -> None:
    with pytest.raises(FileRefused) as refused:
        show_file(workspace_id=files.workspace.pk, owner=files.member, path=path, content=content)
    assert refused.value.extra == {"rule": rule}


def test_the_path_used_least_recently_is_forgotten_first(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MAX_PATHS", 2)
    files.files["c.txt"] = "c\n"
    tags = {path: files.show(path).tag for path in ("a.txt", "b.txt")}
    files.show("a.txt")
    files.show("c.txt")
    assert set(FileSnapshot.objects.values_list("path", flat=True)) == {"a.txt", "c.txt"}
    assert files.refused(f"[b.txt#{tags['b.txt']}]\nREM").rule is Rule.UNKNOWN_TAG


def test_retained_texts_are_bounded_in_bytes(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_RETAINED_BYTES", len(TEN) + 4)
    files.show("b.txt")
    files.show("a.txt")
    assert set(FileSnapshot.objects.values_list("path", flat=True)) == {"a.txt"}


def test_bodies_are_kept_as_long_as_the_memory_needs_them(files: Files) -> None:
    files.done(f"[a.txt#{files.show('a.txt').tag}]\nCUT 1.=2 @kept")
    Blob.objects.update(touched_at=Now() - timedelta(days=3))
    collect_blobs()
    tag = files.show("a.txt").tag
    files.done(f"[a.txt#{tag}]\nPUT >$ @kept")
    assert files.files["a.txt"].endswith("row 10\nrow 1\nrow 2\n")
    Workspace.objects.all().delete()
    Blob.objects.update(touched_at=Now() - timedelta(days=3))
    collect_blobs()
    assert not Blob.objects.exists()
