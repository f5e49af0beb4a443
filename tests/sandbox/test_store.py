"""A tree appears whole or not at all, whoever else makes the same one."""

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
    assert store.has(DIGEST)
    assert [one.name for one in tmp_path.iterdir()] == [DIGEST]


def test_a_tree_that_cannot_be_published_is_no_success(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (tmp_path / DIGEST).write_bytes(b"no tree")
    with pytest.raises(OSError, match="irectory"), store.draft(DIGEST) as draft:
        draft.add("node_modules/a", [FILE])
    assert not store.has(DIGEST)
