"""A tree appears whole or not at all, whoever else makes the same one."""

import errno
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from apps.domain.tarballs import PackedFile
from apps.sandbox.store import Store

DIGEST = "ab" * 32
FILE = PackedFile("index.js", b"1", executable=False)


def test_who_comes_second_with_the_same_tree_takes_the_first_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.draft(DIGEST) as late:
        late.add("node_modules/a", [FILE])
        with store.draft(DIGEST) as first:
            first.add("node_modules/a", [FILE])
    assert [one.name for one in tmp_path.iterdir()] == [DIGEST]
    assert store.has(DIGEST)


def test_a_tree_that_cannot_be_published_is_no_success(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (tmp_path / DIGEST).write_bytes(b"no tree")
    with pytest.raises(OSError, match="irectory"), store.draft(DIGEST) as draft:
        draft.add("node_modules/a", [FILE])
    assert not store.has(DIGEST)


# --- what a machine that dies leaves behind


def test_everything_of_a_tree_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    missing: list[str] = []
    real_sync, real_rename = os.fsync, Path.rename

    def sync(number: int) -> None:
        real_sync(number)
        synced.add(os.fstat(number).st_ino)

    def rename(place: Path, target: Path) -> Path:
        whole = [place, *place.rglob("*")]
        missing.extend(str(one) for one in whole if one.stat().st_ino not in synced)
        synced.clear()
        return real_rename(place, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "rename", rename)
    with Store(tmp_path).draft(DIGEST) as draft:
        draft.add("node_modules/a", [FILE, PackedFile("lib/deep/b.js", b"2", executable=True)])
    assert missing == []
    # The name itself is on the disk once the tree counts as there.
    assert synced == {tmp_path.stat().st_ino}


def test_a_disk_that_does_not_take_it_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    store = Store(tmp_path)
    with pytest.raises(OSError, match="Input/output"), store.draft(DIGEST) as draft:
        draft.add("node_modules/a", [FILE])
    assert not store.has(DIGEST)
    assert list(tmp_path.iterdir()) == []


# --- what is collected, and what never is


def made(store: Store) -> Path:
    with store.draft(DIGEST) as draft:
        draft.add("node_modules/a", [FILE])
    return store.folder / DIGEST


def rested(store: Store) -> Path:
    place = made(store)
    os.utime(place, (0, 0))
    return place


def nothing() -> set[str]:
    return set()


def test_a_tree_that_is_wanted_while_it_is_looked_at_stays(tmp_path: Path) -> None:
    store = Store(tmp_path)
    place = rested(store)

    def wanted() -> set[str]:
        # After this, whoever collects believes that nobody needs it.
        assert store.has(DIGEST)
        return set()

    assert store.collect(wanted) == 0
    assert (place / "node_modules/a/index.js").exists()


def test_a_tree_that_comes_to_be_needed_while_it_is_looked_at_stays(tmp_path: Path) -> None:
    store = Store(tmp_path)
    rested(store)
    answers: list[set[str]] = [set(), {DIGEST}]
    assert store.collect(lambda: answers.pop(0)) == 0
    assert store.has(DIGEST)


def test_who_asks_for_a_tree_that_is_going_is_told_that_it_is_gone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    rested(store)
    asked, told = threading.Event(), []

    def ask() -> None:
        asked.set()
        told.append(store.has(DIGEST))

    user = threading.Thread(target=ask)

    def needed() -> set[str]:
        # The second time it is asked while the tree is held and about to go.
        if user.ident is None and store.folder.joinpath(f".use-{DIGEST}").exists():
            user.start()
            asked.wait(10)
        return set()

    assert store.collect(needed) == 1
    user.join(10)
    assert told == [False]
    assert not (tmp_path / DIGEST).exists()


def test_no_tree_goes_between_a_look_and_its_use_however_many_collect(tmp_path: Path) -> None:
    store = Store(tmp_path)
    over = threading.Event()
    lost: list[int] = []

    def collect() -> None:
        while not over.is_set():
            store.collect(nothing)

    def use(number: int) -> None:
        for _ in range(150):
            with store.alone(DIGEST, until=time.monotonic() + 60):
                if not store.has(DIGEST):
                    made(store)
                    assert store.has(DIGEST)
            try:
                (store.folder / DIGEST / "node_modules/a/index.js").read_bytes()
            except FileNotFoundError:
                lost.append(number)
                return
            finally:
                with suppress(FileNotFoundError):
                    # It has rested: from here on it may go.
                    os.utime(store.folder / DIGEST, (0, 0))

    collectors = [threading.Thread(target=collect) for _ in range(2)]
    user = threading.Thread(target=use, args=(1,))
    for one in (*collectors, user):
        one.start()
    user.join()
    over.set()
    for one in collectors:
        one.join()
    assert lost == []


def test_what_an_installer_that_died_left_goes_after_its_rest(tmp_path: Path) -> None:
    store = Store(tmp_path)
    left = tmp_path / f".draft-{DIGEST[:12]}-x"
    left.mkdir()
    assert store.collect(nothing) == 0
    os.utime(left, (0, 0))
    assert store.collect(nothing) == 1
    assert not left.exists()
