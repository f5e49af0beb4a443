"""Searching equals the plainest way to search, on any text."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.domain.filescope.files import TreeFiles
from apps.domain.filescope.scope import Scope
from apps.domain.filescope.searching import glob_files, grep_files
from apps.domain.scoping import Artifact, ArtifactKind

ROOT = Artifact("all", ArtifactKind.FOLDER, "")

alphabet = st.sampled_from(["a", "b", "é", "\U0001f600", " ", "\n", "\r", "\t", ".", "0"])
contents = st.text(alphabet, max_size=60)
atoms = st.sampled_from(
    ["a", "b", "é", ".", r"\.", "[ab]", "[^a]", r"\s", r"\S", r"\d", "^", "$", r"\x{1F600}", " "]
)
# One syntax that both engines read alike; the other's flags say what a line is.
expressions = st.recursive(
    atoms,
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})")
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,2}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        )
    ),
    max_leaves=6,
)


def naive(expression: str, content: str) -> list[tuple[int, str]]:
    pattern = re.compile(expression.replace(r"\x{1F600}", "\U0001f600"), re.ASCII)
    lines = content.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    return [(number, line) for number, line in enumerate(lines, 1) if pattern.search(line)]


@given(expressions, contents)
@settings(max_examples=600, deadline=None)
def test_grep_finds_what_looking_at_each_line_finds(expression: str, content: str) -> None:
    scope = Scope(ROOT, TreeFiles({"f": content.encode()}))
    found = grep_files(scope, expression, "f")
    assert [(one["line"], one["text"]) for one in found["matches"]] == naive(expression, content)
    assert not found["truncated"]


segments = st.text(st.sampled_from("ab.*"), min_size=1, max_size=3).filter(
    lambda part: part not in (".", "..")
)
globs = st.lists(st.just("**") | segments, min_size=1, max_size=4).map("/".join)
names = st.text(st.sampled_from("ab."), min_size=1, max_size=3).filter(
    lambda part: part not in (".", "..")
)
paths = st.lists(names, min_size=1, max_size=4).map(tuple)


def fits(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Match a pattern against a path, part by part."""
    if not pattern:
        return not path
    first, rest = pattern[0], pattern[1:]
    if first == "**":
        if not rest:
            return bool(path)
        return any(fits(rest, path[taken:]) for taken in range(len(path)))
    if not path:
        return False
    return one_part(first, path[0]) and fits(rest, path[1:])


def one_part(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return one_part(pattern[1:], name) or (bool(name) and one_part(pattern, name[1:]))
    return bool(name) and pattern[0] == name[0] and one_part(pattern[1:], name[1:])


@given(globs, st.sets(paths, max_size=8))
@settings(max_examples=400, deadline=None)
def test_glob_finds_what_matching_part_by_part_finds(
    pattern: str, found: set[tuple[str, ...]]
) -> None:
    parts = tuple(pattern.split("/"))
    # Two stars inside a part cross folders, which this matcher knows nothing of.
    if any("**" in part and part != "**" for part in parts):
        return
    folders = {path[:end] for path in found for end in range(1, len(path))}
    files = sorted(path for path in found if path not in folders)
    scope = Scope(ROOT, TreeFiles({"/".join(path): b"" for path in files}))
    wanted = {"/".join(path) for path in files if fits(parts, path)}
    assert set(glob_files(scope, pattern)["matches"]) == wanted


def test_two_stars_inside_a_part_cross_folders() -> None:
    scope = Scope(ROOT, TreeFiles({"a/b/c.md": b"", "a.md": b"", "c.py": b""}))
    assert glob_files(scope, "a**.md")["matches"] == ["a.md", "a/b/c.md"]
    assert set(glob_files(scope, "**.md")["matches"]) == {"a.md", "a/b/c.md"}


def test_other_signs_of_a_glob_are_letters() -> None:
    scope = Scope(ROOT, TreeFiles({"a?": b"", "ab": b"", "[a]": b"", "{a,b}": b""}))
    assert glob_files(scope, "a?")["matches"] == ["a?"]
    assert glob_files(scope, "[a]")["matches"] == ["[a]"]
