"""A folder is looked at without following anything, whatever is done to it meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.domain.filescope.files import MAX_FOLDER_ENTRIES, EntryKind, whole
from apps.domain.filescope.paths import NotThere, ScopeError
from apps.domain.filescope.reading import list_entries, read_lines
from apps.domain.filescope.scope import Scope
from apps.domain.filescope.searching import glob_files, grep_files
from apps.domain.scoping import Artifact, ArtifactKind
from apps.tools.folderfiles import FolderFiles

APP = Artifact("app", ArtifactKind.FOLDER, "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one of each kind, beside a secret."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("needle\n")
    app = tmp_path / "app"
    (app / "docs").mkdir(parents=True)
    (app / "docs" / "a.md").write_text("needle\n")
    (app / "link.md").symlink_to(app / "docs" / "a.md")
    (app / "out").symlink_to(tmp_path / "secret")
    os.mkfifo(app / "pipe")
    return app


@pytest.fixture
def scope(folder: Path) -> Iterator[Scope]:
    with FolderFiles(folder) as files:
        yield Scope(APP, files)


def test_four_kinds_are_listed_and_only_files_are_searched(scope: Scope) -> None:
    listed = {one["name"]: one["kind"] for one in list_entries(scope, None)["entries"]}
    assert listed == {
        "docs": "directory",
        "link.md": "symlink",
        "out": "symlink",
        "pipe": "other",
    }
    assert glob_files(scope, "**")["matches"] == ["docs/a.md"]
    assert [one["path"] for one in grep_files(scope, "needle")["matches"]] == ["docs/a.md"]


@pytest.mark.parametrize("path", ["link.md", "out/key", "out", "pipe", "gone", "docs"])
def test_nothing_but_a_plain_file_is_read(scope: Scope, path: str) -> None:
    with pytest.raises(NotThere):
        read_lines(scope, path)
    if path not in ("docs",):
        with pytest.raises(ScopeError):
            list_entries(scope, path)


def test_a_folder_that_is_replaced_by_a_link_leads_nowhere(scope: Scope, folder: Path) -> None:
    assert read_lines(scope, "docs/a.md")["totalLines"] == 1
    (folder / "docs").rename(folder / "was")
    (folder / "docs").symlink_to(folder.parent / "secret")
    with pytest.raises(NotThere):
        read_lines(scope, "docs/key")
    with pytest.raises(NotThere):
        list_entries(scope, "docs")


def test_the_folder_itself_stays_the_one_that_was_opened(scope: Scope, folder: Path) -> None:
    folder.rename(folder.parent / "moved")
    folder.symlink_to(folder.parent / "secret")
    assert read_lines(scope, "docs/a.md")["totalLines"] == 1
    with pytest.raises(NotThere):
        read_lines(scope, "key")


def test_a_target_that_is_a_link_keeps_its_tools_from_running(folder: Path) -> None:
    with FolderFiles(folder) as files:
        for path in ("link.md", "pipe", "docs", "gone"):
            with pytest.raises(NotThere):
                Scope(Artifact("x", ArtifactKind.FILE, path), files).check_targets()
        Scope(Artifact("x", ArtifactKind.FILE, "docs/a.md"), files).check_targets()


def test_a_large_file_is_read_in_pieces(folder: Path) -> None:
    (folder / "large").write_bytes(b"line\n" * 200_000)
    with FolderFiles(folder) as files:
        assert whole(files, "large", 10) is None
        found = read_lines(Scope(APP, files), "large", start=199_999)
        assert (len(found["lines"]), found["totalLines"]) == (2, 200_000)
        assert files.kind("large") is EntryKind.FILE


def test_a_folder_of_too_many_entries_is_an_error(folder: Path) -> None:
    many = folder / "many"
    many.mkdir()
    for number in range(MAX_FOLDER_ENTRIES + 1):
        os.close(os.open(many / str(number), os.O_CREAT | os.O_WRONLY))
    with FolderFiles(folder) as files, pytest.raises(ScopeError, match="10,000"):
        list_entries(Scope(APP, files), "many")
