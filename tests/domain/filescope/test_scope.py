"""A scope's paths are logical: they lead into an artifact and its children, and nowhere else."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.domain.filescope.files import MAX_FOLDER_ENTRIES, EntryKind, TreeFiles
from apps.domain.filescope.paths import NotThere, ScopeError, check_logical
from apps.domain.filescope.reading import (
    MAX_PAGE_BYTES,
    MAX_RESULT_BYTES,
    _headings,
    graph_of,
    list_entries,
    read_lines,
    read_section,
    view_image,
)
from apps.domain.filescope.scope import Scope
from apps.domain.filescope.searching import MAX_ENTRIES, glob_files, grep_files
from apps.domain.scoping import Artifact, ArtifactKind
from tests.domain.commandio.images import PNG

TREE = {
    "README.md": b"# App\n\nText.\n",
    "src/a.py": b"import os\n",
    "src/deep/b.py": b"import sys\n",
    "docs/rules/style.md": b"# Style\n",
    "docs/rules/.hidden": b"import nothing\n",
    "data/blob.bin": b"import\x00",
    "secret/key": b"import key\n",
}
APP = Artifact(
    "app",
    ArtifactKind.FOLDER,
    "src",
    (
        ("rules", Artifact("spec", ArtifactKind.FOLDER, "docs/rules")),
        ("about", Artifact("readme", ArtifactKind.FILE, "README.md")),
    ),
)


def scope(artifact: Artifact = APP, tree: dict[str, bytes] | None = None) -> Scope:
    return Scope(artifact, TreeFiles(TREE if tree is None else tree))


def one_file(content: bytes, name: str = "a.txt") -> Scope:
    return scope(Artifact("one", ArtifactKind.FOLDER, ""), {name: content})


def names(found: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["kind"] for one in found["entries"]}


def test_a_child_is_read_under_its_logical_name_and_named() -> None:
    found = read_lines(scope(), "rules/style.md")
    assert found == {
        "artifactId": "app",
        "resolvedArtifactId": "spec",
        "path": "rules/style.md",
        "lines": [{"line": 1, "text": "# Style\n"}],
        "totalLines": 1,
    }
    assert read_lines(scope(), "a.py")["resolvedArtifactId"] == "app"
    assert read_lines(scope(), "about/README.md")["resolvedArtifactId"] == "readme"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/a.py",
        "a.py/",
        "./a.py",
        ".",
        "..",
        "../README.md",
        "deep/../../README.md",
        "rules/../style.md",
        "rules//style.md",
        "a\\b",
        "c:a",
        "a\x00b",
        "a\nb",
        "a\x7fb",
        "x" * 4_097,
        "\U0001f600" * 2_049,
        "\ud800",
    ],
)
def test_a_path_that_is_no_plain_relative_one_is_refused(path: str) -> None:
    for call in (
        lambda: read_lines(scope(), path),
        lambda: list_entries(scope(), path),
        lambda: glob_files(scope(), "*", path),
        lambda: grep_files(scope(), "x", path),
        lambda: view_image(scope(), path),
    ):
        with pytest.raises(ScopeError):
            call()


def test_a_path_of_the_greatest_length_is_judged_by_what_is_there() -> None:
    assert check_logical("x" * 4_096) == ("x" * 4_096,)
    with pytest.raises(NotThere):
        read_lines(scope(), "x" * 4_096)


@pytest.mark.parametrize(
    "path", ["secret/key", "README.md", "docs/rules/style.md", "src/a.py", "about/other.md", "gone"]
)
def test_what_lies_outside_of_the_artifact_is_not_there(path: str) -> None:
    with pytest.raises(NotThere):
        read_lines(scope(), path)


@given(st.text(st.sampled_from("ab./\\:srkey"), max_size=24))
@settings(max_examples=400, deadline=None)
def test_no_path_whatever_leads_out(path: str) -> None:
    try:
        place = scope().place(path)
    except ScopeError:
        return
    assert place.physical.startswith(("src", "docs/rules", "README.md"))


def test_a_file_artifact_has_its_one_file_and_no_neighbours() -> None:
    alone = scope(Artifact("readme", ArtifactKind.FILE, "docs/rules/style.md"))
    assert names(list_entries(alone, None)) == {"style.md": "file"}
    assert names(list_entries(alone, ".")) == {"style.md": "file"}
    assert glob_files(alone, "*", ".")["matches"] == ["style.md"]
    assert grep_files(alone, "Style", ".")["matches"][0]["path"] == "style.md"
    assert read_lines(alone, "style.md")["totalLines"] == 1
    for path in (".hidden", "rules/style.md", "docs/rules/style.md"):
        with pytest.raises(NotThere):
            read_lines(alone, path)
    with pytest.raises(ScopeError):
        read_lines(alone, ".")


def test_a_missing_target_keeps_every_tool_from_running() -> None:
    missing = scope(Artifact("x", ArtifactKind.FILE, "gone.md"))
    with pytest.raises(NotThere):
        missing.check_targets()
    with pytest.raises(NotThere):
        scope(Artifact("x", ArtifactKind.FILE, "docs")).check_targets()
    scope().check_targets()


def test_a_listing_names_children_beside_files() -> None:
    assert names(list_entries(scope(), None)) == {
        "a.py": "file",
        "deep": "directory",
        "rules": "directory",
        "about": "directory",
    }
    found = list_entries(scope(), "rules")
    assert (found["artifactId"], found["path"]) == ("app", "rules")
    assert names(found) == {"style.md": "file", ".hidden": "file"}
    with pytest.raises(ScopeError):
        list_entries(scope(), "a.py")


def test_a_graph_artifact_has_children_only() -> None:
    graph = scope(Artifact("all", ArtifactKind.GRAPH, "src", APP.children))
    assert names(list_entries(graph, None)) == {"rules": "directory", "about": "directory"}
    with pytest.raises(NotThere):
        read_lines(graph, "a.py")


def test_the_graph_shows_the_whole_package() -> None:
    assert graph_of(APP, {"spec": ["read_spec"]}) == {
        "id": "app",
        "kind": "folder",
        "path": "src",
        "children": {
            "rules": {
                "id": "spec",
                "kind": "folder",
                "path": "docs/rules",
                "tools": ["read_spec"],
            },
            "about": {"id": "readme", "kind": "file", "path": "README.md"},
        },
    }


# --- reading ---

pieces = ["", "a", "é\U0001f600", "x" * 900, "y" * 20_000, "\ufeff", "\r", "\x01" * 300]
texts = st.lists(
    st.sampled_from(pieces),
    max_size=40,
).flatmap(
    lambda parts: st.lists(
        st.sampled_from(["\n", "\r\n", "", "\n\n"]), min_size=len(parts), max_size=len(parts)
    ).map(lambda ends: "".join(a + b for a, b in zip(parts, ends, strict=True)))
)


@given(texts, st.integers(1, 7) | st.none())
@settings(max_examples=120, deadline=None)
def test_pages_put_together_are_the_file(text: str, limit: int | None) -> None:
    content = text.encode()
    total = content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
    if any(len(line) > MAX_PAGE_BYTES for line in content.split(b"\n")):
        return
    start, pages = 1, []
    while True:
        found = read_lines(one_file(content), "a.txt", start=start, limit=limit)
        assert found["totalLines"] == total
        assert [one["line"] for one in found["lines"]] == list(
            range(start, start + len(found["lines"]))
        )
        page = "".join(one["text"] for one in found["lines"])
        assert len(page.encode()) <= MAX_PAGE_BYTES
        if not found["lines"]:
            break
        pages.append(page)
        start += len(found["lines"])
    assert "".join(pages) == text
    assert start == total + 1


def test_an_empty_file_has_no_lines_and_a_page_past_the_end_tells_how_many_there_are() -> None:
    assert read_lines(one_file(b""), "a.txt")["totalLines"] == 0
    past = read_lines(one_file(b"a\nb"), "a.txt", start=9)
    assert (past["lines"], past["totalLines"]) == ([], 2)


@pytest.mark.parametrize("bad", [b"\xff\n", b"a\x00b\n"])
def test_only_requested_lines_have_to_be_text(bad: bytes) -> None:
    files = one_file(b"one\n" + bad + b"three\n")
    assert read_lines(files, "a.txt", limit=1)["lines"] == [{"line": 1, "text": "one\n"}]
    assert read_lines(files, "a.txt", start=3)["lines"] == [{"line": 3, "text": "three\n"}]
    with pytest.raises(ScopeError, match="Line 2"):
        read_lines(files, "a.txt")


def test_a_first_line_beyond_the_bound_is_an_error_and_a_later_one_ends_the_page() -> None:
    files = one_file(b"a\n" + b"x" * MAX_PAGE_BYTES + b"\nz\n")
    found = read_lines(files, "a.txt")
    assert (found["lines"], found["totalLines"]) == ([{"line": 1, "text": "a\n"}], 3)
    with pytest.raises(ScopeError, match="Line 2 alone"):
        read_lines(files, "a.txt", start=2)
    whole = one_file(b"x" * (MAX_PAGE_BYTES - 1) + b"\n")
    assert len(read_lines(whole, "a.txt")["lines"]) == 1


def test_many_short_lines_stay_within_the_bound_of_a_result() -> None:
    found = read_lines(one_file(b"\n" * 60_000), "a.txt")
    assert len(json.dumps(found).encode()) <= MAX_RESULT_BYTES
    assert 0 < len(found["lines"]) < 60_000
    assert found["totalLines"] == 60_000


def test_a_listing_goes_on_where_its_page_ended() -> None:
    tree = {f"{'n' * 200}{number:05}": b"" for number in range(4_000)}
    files = scope(Artifact("many", ArtifactKind.FOLDER, ""), tree)
    first = list_entries(files, None)
    assert first["truncated"]
    listed, after = names(first), first["next"]
    while after:
        page = list_entries(files, None, after=after)
        listed |= names(page)
        after = page.get("next", "")
    assert set(listed) == set(tree)


def test_a_folder_of_too_many_entries_is_an_error_of_every_tool() -> None:
    tree = {f"all/{number}": b"x" for number in range(MAX_FOLDER_ENTRIES + 1)}
    files = scope(Artifact("many", ArtifactKind.FOLDER, ""), tree)
    for call in (
        lambda: list_entries(files, "all"),
        lambda: glob_files(files, "**"),
        lambda: grep_files(files, "x"),
    ):
        with pytest.raises(ScopeError, match="10,000"):
            call()


# --- sections and images ---

DOCUMENT = b"""# Guide

Intro.

## Rules ##
One.
```
# not a heading
```
### Deeper
Two.

## Other
Three.
"""


def test_a_section_ends_where_the_next_one_of_its_rank_begins() -> None:
    found = read_section(one_file(DOCUMENT), "a.txt", "## Rules")
    assert found["line"] == 5
    assert found["text"].startswith("## Rules ##\nOne.\n")
    assert found["text"].endswith("### Deeper\nTwo.\n\n")
    assert read_section(one_file(DOCUMENT), "a.txt", "Guide")["text"] == DOCUMENT.decode()


@pytest.mark.parametrize("heading", ["Nothing", "not a heading", ""])
def test_a_section_that_is_not_there_is_said_to_be_missing(heading: str) -> None:
    with pytest.raises(NotThere):
        read_section(one_file(DOCUMENT), "a.txt", heading)


def test_a_heading_of_blanks_is_read_in_time_that_grows_with_its_length() -> None:
    # In a process of its own: a pattern that goes back and forth could not be interrupted here.
    code = (
        "from apps.domain.filescope.reading import _headings;"
        "print(list(_headings(['#' + ' ' * 200_000 + 'b' + ' #' * 50_000 + 'c'])) != [])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=20, check=True)
    assert told.stdout == b"True\n"


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# A #", "A"),
        ("#\tA\t##  ", "A"),
        ("# A#", "A#"),
        ("#", ""),
        ("# #", "#"),
        ("# A\r\n", "A"),
    ],
)
def test_a_heading_is_told_without_the_signs_that_close_it(line: str, title: str) -> None:
    assert list(_headings([line])) == [(0, 1, title)]


def test_a_heading_that_stands_twice_names_no_section() -> None:
    with pytest.raises(NotThere, match="more than one"):
        read_section(one_file(b"# A\n# A\n"), "a.txt", "A")


def test_an_image_is_told_by_its_bytes() -> None:
    block = view_image(one_file(PNG, "a.txt"), "a.txt")
    assert (block.mime_type, block.content) == ("image/png", PNG)
    with pytest.raises(ScopeError):
        view_image(one_file(b"GIF89a"), "a.txt")


# --- searching ---


def test_hidden_files_count_and_binary_ones_do_not() -> None:
    whole = scope(Artifact("all", ArtifactKind.FOLDER, ""))
    found = grep_files(whole, "import")
    assert [one["path"] for one in found["matches"]] == [
        "docs/rules/.hidden",
        "secret/key",
        "src/a.py",
        "src/deep/b.py",
    ]
    assert not found["truncated"]
    assert "data/blob.bin" in glob_files(whole, "**")["matches"]
    assert grep_files(one_file(b"import\n\xff\n"), "import")["matches"] == []


def test_a_search_names_logical_paths_and_the_path_it_was_asked_for() -> None:
    found = grep_files(scope(), "^# S", "rules")
    assert found == {
        "artifactId": "app",
        "path": "rules",
        "matches": [{"path": "rules/style.md", "line": 1, "text": "# Style"}],
        "truncated": False,
    }
    assert glob_files(scope(), "**/*.py")["matches"] == ["a.py", "deep/b.py"]
    assert glob_files(scope(), "*.md", "rules") == {
        "artifactId": "app",
        "path": "rules",
        "matches": ["rules/style.md"],
        "truncated": False,
    }


def test_a_filter_looks_at_the_relative_path_and_at_a_file_s_own_name() -> None:
    assert [one["path"] for one in grep_files(scope(), "import", glob="deep/*")["matches"]] == [
        "deep/b.py"
    ]
    assert grep_files(scope(), "import", "deep/b.py", "*.py")["matches"]
    assert not grep_files(scope(), "import", "deep/b.py", "deep/*")["matches"]


def test_glob_wants_a_folder() -> None:
    with pytest.raises(ScopeError):
        glob_files(scope(), "*", "a.py")


@pytest.mark.parametrize(
    "pattern", ["", "x" * 4_097, "/a", "a//b", "../a", "./a", "a\\b", "c:*", "a\x00", "a/"]
)
def test_a_glob_that_is_no_relative_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ScopeError):
        glob_files(scope(), pattern)
    with pytest.raises(ScopeError):
        grep_files(scope(), "x", glob=pattern)


@pytest.mark.parametrize(
    "pattern", ["", "(", "x" * 4_097, "(?=a)", r"\1", "a{1001}", "(" * 3_000, "\ud800"]
)
def test_a_regular_expression_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(ScopeError):
        grep_files(scope(), pattern)


def test_a_regular_expression_that_compiles_too_large_is_refused() -> None:
    with pytest.raises(ScopeError, match="too large"):
        grep_files(scope(), r"\pL{900}")


def test_an_expression_that_explodes_elsewhere_takes_linear_time_here() -> None:
    found = grep_files(one_file(b"a" * 200_000 + b"\n"), "(a*)*(a|aa)+b")
    assert found["matches"] == []


def test_a_file_too_large_to_search_is_said_to_be_left_out() -> None:
    files = scope(
        Artifact("big", ArtifactKind.FOLDER, ""),
        {"big": b"needle\n" * (2 * 1024 * 1024), "small": b"needle\n"},
    )
    found = grep_files(files, "needle")
    assert (len(found["matches"]), found["truncated"]) == (1, True)


def test_a_search_ends_at_its_bounds_and_says_so() -> None:
    tree = {f"{folder}/{number}": b"n\n" for folder in "abc" for number in range(4_000)}
    files = scope(Artifact("many", ArtifactKind.FOLDER, ""), tree)
    found = grep_files(files, "n")
    assert found["truncated"]
    assert len(found["matches"]) < MAX_ENTRIES
    long = one_file((b"x" * 1_000 + b"\n") * 2_000)
    found = grep_files(long, "x")
    assert found["truncated"]
    assert 400 < len(found["matches"]) < 600


def test_kinds_are_four() -> None:
    assert {one.value for one in EntryKind} == {"file", "directory", "symlink", "other"}


def test_a_search_ends_when_nobody_waits_for_it_any_more() -> None:
    asked = iter([False, False, True])
    files = one_file(b"".join(b"line %d\n" % n for n in range(40_000)))
    with pytest.raises(ScopeError, match="took too long"):
        grep_files(files, "nothing", gone=lambda: next(asked))


def test_lines_are_counted_over_all_slices_of_a_file() -> None:
    lines = [b"x" * (n % 700) + b" needle"[: 7 * (n % 5 == 0)] for n in range(3_000)]
    found = grep_files(one_file(b"\n".join(lines)), "needle$")
    assert [one["line"] for one in found["matches"]] == list(range(1, 3_001, 5))
    assert not found["truncated"]


def test_a_line_that_no_result_has_room_for_is_passed_over_and_that_is_said() -> None:
    found = grep_files(one_file(b"x" * MAX_RESULT_BYTES + b"x\nx\n"), "x")
    assert [one["line"] for one in found["matches"]] == [2]
    assert found["truncated"]
