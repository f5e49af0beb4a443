"""A pin says which bytes a call stood on, and what has none keeps the call from running."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.domain.commandio.pins import CannotPin, PinnedEntry, PinnedLink, pin_paths

TREE: dict[str, PinnedEntry] = {
    "tools/run": b"#!/bin/sh\n",
    "tools/lib/a": b"a",
    "tools/lib/link": PinnedLink("../run"),
    "README.md": b"# App\n",
    "outside": PinnedLink("/etc"),
}


def pin(path: str, tree: dict[str, PinnedEntry] = TREE) -> str:
    return pin_paths(tree, [path])[path]


def test_a_file_is_pinned_by_its_bytes() -> None:
    assert pin("README.md") == hashlib.sha256(b"# App\n").hexdigest()


def test_a_folder_is_pinned_by_the_paths_and_bytes_below_it() -> None:
    found = pin("tools")
    assert found != pin("tools/lib")
    assert found == pin("tools", {**TREE, "README.md": b"other"})
    assert found == pin("tools", dict(reversed(TREE.items())))
    for changed in (
        {**TREE, "tools/run": b"#!/bin/sh"},
        {**TREE, "tools/more": b""},
        {path: entry for path, entry in TREE.items() if path != "tools/lib/a"},
        {**TREE, "tools/lib/link": PinnedLink("../other")},
        {**TREE, "tools/lib/link": b"../run"},
    ):
        assert pin("tools", changed) != found


def test_a_folder_s_pin_does_not_hold_its_own_name() -> None:
    moved = {f"x/{path}": entry for path, entry in TREE.items()}
    assert pin("x/tools", moved) == pin("tools")


@pytest.mark.parametrize(
    "path",
    ["gone", "tools/run/x", "outside", "outside/passwd", "tools/lib/link", "", "/tools", "a/../b"],
)
def test_what_is_missing_or_reached_through_a_link_has_no_pin(path: str) -> None:
    with pytest.raises(CannotPin):
        pin(path)


def test_pins_are_bounded() -> None:
    tree: dict[str, PinnedEntry] = {f"all/{number}": b"xx" for number in range(10)}
    assert pin_paths(tree, ["all"], max_entries=10, max_bytes=20)
    with pytest.raises(CannotPin, match="too many"):
        pin_paths(tree, ["all"], max_entries=9)
    with pytest.raises(CannotPin, match="too large"):
        pin_paths(tree, ["all"], max_bytes=19)
    with pytest.raises(CannotPin, match="64"):
        pin_paths({str(number): b"" for number in range(65)}, map(str, range(65)))
    with pytest.raises(CannotPin):
        pin_paths(TREE, ["README.md", "README.md"])


names = st.text(st.sampled_from("ab"), min_size=1, max_size=3)


@given(
    st.dictionaries(names, st.binary(max_size=4), min_size=1, max_size=4),
    st.dictionaries(names, st.binary(max_size=4), min_size=1, max_size=4),
)
def test_two_folders_have_one_pin_only_where_they_are_equal(
    first: dict[str, bytes], second: dict[str, bytes]
) -> None:
    def of(files: dict[str, bytes]) -> str:
        return pin("d", {f"d/{name}": content for name, content in files.items()})

    assert (of(first) == of(second)) == (first == second)
