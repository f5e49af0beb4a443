"""Whatever package comes with this clone and needs others has its tree pinned, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.domain.lockfiles import dependencies_of
from apps.domain.packagetree import MANIFEST_NAME
from apps.sandbox.dependencies import install
from apps.sandbox.errors import DependenciesMissing
from apps.sandbox.store import PINS, Store, read_pins
from tests.factories import locks

ROOT = Path(__file__).parents[2]
# What is installed or made here, and what tests make up.
APART = {".git", "node_modules", "var", "tests", ".venv"}


def vendored(root: Path) -> Iterator[Path]:
    """Yield the folders of packages that come along."""
    for manifest in sorted(root.rglob(MANIFEST_NAME)):
        if not APART.intersection(manifest.relative_to(root).parts):
            yield manifest.parent


def differences(root: Path, pins: frozenset[str]) -> list[str]:
    """Return every need without a pin and every pin without a need, each in one line."""
    needs: dict[str, str] = {}
    for folder in vendored(root):
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*.json")
        }
        if needed := dependencies_of(files).digest:
            needs[needed] = str(folder.relative_to(root))
    return [
        *(f"{needs[one]} needs {one}, which is not pinned" for one in sorted(needs.keys() - pins)),
        *(f"{one} is pinned, and no package here needs it" for one in sorted(pins - needs.keys())),
    ]


def write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, content in {MANIFEST_NAME: b"{}", **files}.items():
        (folder / name).write_bytes(content)


def test_packages_of_this_clone_and_pinned_trees_are_the_same() -> None:
    assert [folder.name for folder in vendored(ROOT)]
    assert differences(ROOT, read_pins(PINS.read_text())) == []


def test_a_need_without_a_pin_and_a_pin_without_a_need_are_both_found(tmp_path: Path) -> None:
    files = locks.needing("mine", {"alpha": locks.published("alpha")})
    write(tmp_path / "examples/mine", files)
    write(tmp_path / "examples/plain", {"package.json": locks.package_json("plain")})
    write(tmp_path / "tests/made-up", locks.needing("x", {"beta": locks.published("beta")}))
    digest = dependencies_of(files).digest
    assert differences(tmp_path, frozenset({digest})) == []
    assert differences(tmp_path, frozenset()) == [
        f"examples/mine needs {digest}, which is not pinned"
    ]
    assert differences(tmp_path, frozenset({digest, "0" * 64})) == [
        f"{'0' * 64} is pinned, and no package here needs it"
    ]


@pytest.mark.parametrize("brought", [False, True])
def test_a_pinned_package_has_the_tree_that_was_brought_or_fails(
    tmp_path: Path, brought: bool
) -> None:
    needed = dependencies_of(locks.needing("mine", {"alpha": locks.published("alpha")}))
    store = Store(tmp_path / "made", tmp_path / "brought", frozenset({needed.digest}))
    # One that was installed by itself is not the one that was brought.
    (tmp_path / "made" / needed.digest / "node_modules").mkdir(parents=True)
    if brought:
        (tmp_path / "brought" / needed.digest / "node_modules").mkdir(parents=True)
        assert install(needed, deadline_s=1, store=store) == needed.digest
        return
    with pytest.raises(DependenciesMissing, match="Nothing is installed in its place"):
        install(needed, deadline_s=1, store=store)
