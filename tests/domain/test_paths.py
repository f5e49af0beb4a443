"""A file name stays inside its tree, shows what it is, and clashes with no other."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.domain.paths import MAX_NAME_BYTES, BadPath, check_name, check_tree, fold


@pytest.mark.parametrize("name", ["a", "a/b/c.py", ".hidden", "ä/ö", "a b", "...", "x" * 255])
def test_plain_names_pass(name: str) -> None:
    assert "/".join(check_name(name)) == name


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", "empty"),
        ("/", "absolute"),
        ("/etc/passwd", "absolute"),
        ("..", "dot_part"),
        ("a/../b", "dot_part"),
        ("./a", "dot_part"),
        ("a/.", "dot_part"),
        ("a//b", "empty_part"),
        ("a/", "empty_part"),
        ("a\\b", "backslash"),
        ("a\x00b", "hidden_character"),
        ("a\nb", "hidden_character"),
        ("a\x1b[31m", "hidden_character"),
        ("a\x7f", "hidden_character"),
        ("a\u202eb", "hidden_character"),
        ("a\u200bb", "hidden_character"),
        ("a\u2028b", "hidden_character"),
        ("a\ud800b", "hidden_character"),
        ("x" * 256, "too_long"),
        ("ä" * 128, "too_long"),
        ("/".join(["x" * 200] * 6), "too_long"),
        ("/".join(["x"] * 33), "too_deep"),
    ],
)
def test_bad_names_are_refused_with_a_code(name: str, code: str) -> None:
    with pytest.raises(BadPath) as refused:
        check_name(name)
    assert refused.value.code == code
    # The sentence may be shown anywhere: it is plain and bounded.
    assert str(refused.value).isascii()
    assert len(str(refused.value)) < 1100


@given(st.text(st.sampled_from("ab./\\\n\x00ä\u202e"), max_size=20) | st.text(max_size=40))
def test_what_passes_stays_inside(name: str) -> None:
    try:
        parts = check_name(name)
    except BadPath:
        return
    joined = posixpath.normpath(posixpath.join("/base", name))
    assert joined == "/base/" + name
    assert "/".join(parts) == name
    assert len(name.encode()) <= MAX_NAME_BYTES


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["a", "a"], "clash"),
        (["a", "A"], "clash"),
        (["stra\u00dfe", "STRASSE"], "clash"),
        (["\u00e9", "e\u0301"], "clash"),
        (["x/a", "X/b"], "clash"),
        (["a", "a/b"], "file_as_folder"),
        (["a/b", "A"], "file_as_folder"),
        (["../a"], "dot_part"),
        (["a", "b", "c", "d"], "too_many"),
    ],
)
def test_clashing_trees_are_refused(names: list[str], code: str) -> None:
    with pytest.raises(BadPath) as refused:
        check_tree(names, max_files=3)
    assert refused.value.code == code


@given(st.lists(st.text(st.sampled_from("abAB/"), min_size=1, max_size=6), max_size=5))
def test_a_tree_that_passes_can_be_written_anywhere(names: list[str]) -> None:
    try:
        kept = check_tree(names, max_files=5)
    except BadPath:
        return
    assert list(kept) == names
    folded = [fold(name) for name in names]
    assert len(set(folded)) == len(folded)
    for one in folded:
        assert not any(other.startswith(one + "/") for other in folded)
