import contextlib
import gzip
import io
import json
import stat
import tarfile
import warnings
import zipfile
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.domain.packagetree import (
    MAX_FILE_BYTES,
    MAX_FILES,
    ArchiveLimits,
    BadArchive,
    BadTree,
    check_tree,
    path_problem,
    read_archive,
    tree_digest,
    tree_problems,
    write_archive,
)

PACKAGE_JSON = b'{"name": "words", "version": "1.0.0"}'
TREE = {"package.json": PACKAGE_JSON, "words/__init__.py": b"", "words/count.py": b"x = 1\n"}
MANIFEST = {"name": "words", "version": "1.0.0"}


def test_a_plain_tree_passes() -> None:
    check_tree(TREE, name="words", version="1.0.0")


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("", "empty_path"),
        ("a" * 241, "path_length"),
        ("é" * 121, "path_length"),
        ("/" + "a/" * 130, "path_length"),
        ("a\x00b", "control_character"),
        ("a\nb", "control_character"),
        ("a\u202eb", "control_character"),
        ("a\u200bb", "control_character"),
        ("a\\b", "backslash"),
        ("..\\b", "backslash"),
        ("/etc/passwd", "absolute_path"),
        ("C:/x", "absolute_path"),
        ("a//b", "empty_part"),
        ("a/", "empty_part"),
        ("..", "traversal"),
        ("../a", "traversal"),
        ("a/../b", "traversal"),
        ("./a", "traversal"),
        ("a/.", "traversal"),
        ("a/b ", "trailing_character"),
        ("a./b", "trailing_character"),
        ("a/" * 16 + "b", "path_depth"),
        (".git/config", "reserved"),
        ("a/.GIT/config", "reserved"),
        ("node_modules/x/index.js", "reserved"),
        ("a/__pycache__/b.txt", "reserved"),
        (".npmrc", "reserved"),
        ("kaizen.json", "reserved"),
        ("KAIZEN.JSON", "reserved"),
        ("a/b.pyc", "compiled"),
        ("b.SO", "compiled"),
        ("a\ud800", "encoding"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_path_that_could_act_is_refused_by_rule(path: str, rule: str) -> None:
    found = path_problem(path)
    assert found is not None
    assert found[0] == rule
    problems = tree_problems({**TREE, path: b""})
    assert rule in {problem.rule for problem in problems}
    assert all(problem.path.isascii() and len(problem.path) <= 200 for problem in problems)


@pytest.mark.parametrize(
    "path",
    ["README.md", "a/b/c.py", ".gitignore", "src/data.json", "docs/kaizen.json", "é/ß.txt", "a b"],
)
def test_an_ordinary_path_passes(path: str) -> None:
    assert path_problem(path) is None


@pytest.mark.parametrize(
    ("extra", "rule"),
    [
        ({"README.md": b"", "readme.MD": b""}, "clash"),
        ({"é.txt": b"", "e\u0301.txt": b""}, "clash"),
        ({"STRASSE": b"", "straße": b""}, "clash"),
        ({"words": b""}, "file_as_folder"),
        ({"WORDS": b""}, "file_as_folder"),
        ({"big": b"x" * (MAX_FILE_BYTES + 1)}, "file_size"),
        ({f"f{i}": b"" for i in range(MAX_FILES)}, "file_count"),
        ({f"f{i}": b"x" * MAX_FILE_BYTES for i in range(9)}, "tree_size"),
        ({"package.json": b"{"}, "json"),
        ({"package.json": b"[]"}, "json"),
        ({"package.json": b'{"name":"a","name":"words","version":"1.0.0"}'}, "json"),
        ({"package.json": b"{}"}, "required"),
        ({"package.json": b'{"name":"words","version":1}'}, "required"),
        ({"package.json": b'{"name":"other","version":"1.0.0"}'}, "disagrees"),
        ({"package.json": b'{"name":"words","version":"1.0.1"}'}, "disagrees"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_tree_that_no_package_may_have_is_refused_by_rule(
    extra: dict[str, bytes], rule: str
) -> None:
    problems = tree_problems({**TREE, **extra}, name="words", version="1.0.0")
    assert rule in {problem.rule for problem in problems}


def test_package_json_is_required() -> None:
    with pytest.raises(BadTree) as caught:
        check_tree({"a.py": b""})
    assert [(p.path, p.rule) for p in caught.value.problems] == [("package.json", "required")]


def test_every_problem_is_named_up_to_a_bound() -> None:
    problems = tree_problems({f"../{i}": b"" for i in range(60)})
    assert len(problems) == 20
    some = tree_problems({"../a": b"", "b\\c": b"", "package.json": PACKAGE_JSON})
    assert {problem.rule for problem in some} == {"traversal", "backslash"}


def test_the_digest_covers_paths_and_bytes() -> None:
    digest = tree_digest(TREE)
    assert digest == tree_digest(dict(reversed(TREE.items())))
    assert digest != tree_digest({**TREE, "words/count.py": b"x = 2\n"})
    assert digest != tree_digest({**TREE, "words/new.py": b""})
    moved = {**TREE, "words/other.py": TREE["words/count.py"]}
    del moved["words/count.py"]
    assert digest != tree_digest(moved)


paths = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.dictionaries(paths, st.binary(max_size=40), max_size=6))
@settings(deadline=None)
def test_judging_a_tree_never_raises_and_a_passing_one_travels(files: dict[str, bytes]) -> None:
    files = {**files, "package.json": PACKAGE_JSON}
    if not tree_problems(files):
        assert read_archive(write_archive(MANIFEST, files)) == (MANIFEST, files)


def test_an_archive_is_the_same_every_time() -> None:
    first = write_archive(MANIFEST, TREE)
    assert first == write_archive(dict(reversed(MANIFEST.items())), dict(reversed(TREE.items())))
    assert read_archive(first) == (MANIFEST, TREE)


def zipped(
    *entries: tuple[zipfile.ZipInfo | str, bytes], method: int = zipfile.ZIP_DEFLATED
) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name that occurs twice
        for entry, content in entries:
            archive.writestr(entry, content)
    return buffer.getvalue()


def tarred(*entries: tuple[tarfile.TarInfo | str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for entry, content in entries:
            info = tarfile.TarInfo(entry) if isinstance(entry, str) else entry
            if info.isreg():
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def special(name: str, kind: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = (kind | 0o777) << 16
    return info


def tar_special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


def encrypted() -> bytes:
    raw = bytearray(zipped(("a", b"x")))
    raw[6] |= 1
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    return bytes(raw)


def test_both_kinds_of_archive_are_read() -> None:
    manifest = json.dumps(MANIFEST).encode()
    entries = [*TREE.items(), ("kaizen.json", manifest)]
    assert read_archive(zipped(*entries)) == (MANIFEST, TREE)
    assert read_archive(tarred(*entries)) == (MANIFEST, TREE)
    dotted = [(f"./{name}", content) for name, content in entries]
    folder = (tar_special(".", tarfile.DIRTYPE), b"")
    assert read_archive(tarred(folder, *dotted)) == (MANIFEST, TREE)
    assert read_archive(zipped((special("words/", stat.S_IFDIR), b""), *entries))[1] == TREE
    assert read_archive(zipped(*TREE.items())) == (None, TREE)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: b"", "format"),
        (lambda: b"hello", "format"),
        (lambda: b"PK\x03\x04" + b"x" * 100, "damaged"),
        (lambda: zipped(("a", b"x"))[:-10], "damaged"),
        (lambda: tarred(("a", b"x" * 2000))[:-20], "damaged"),
        (lambda: gzip.compress(b"not a tar" * 100), "damaged"),
        (lambda: tarred(("a", b"x")) + b"more", "trailing_data"),
        (lambda: tarred(("a", b"x")) * 2, "trailing_data"),
        (lambda: zipped(("a", b"x"), ("a", b"y")), "duplicate"),
        (lambda: tarred(("a", b"x"), ("./a", b"y")), "duplicate"),
        (lambda: zipped(("a", b"x"), method=zipfile.ZIP_LZMA), "entry"),
        (lambda: zipped((special("a", stat.S_IFLNK), b"/etc/passwd")), "entry"),
        (lambda: zipped((special("a", stat.S_IFCHR), b"")), "entry"),
        (lambda: zipped((special("a", stat.S_IFDIR), b"x")), "entry"),
        (lambda: zipped((special("a/", stat.S_IFREG), b"")), "entry"),
        (encrypted, "entry"),
        (lambda: tarred((tar_special("a", tarfile.SYMTYPE, "/etc/passwd"), b"")), "entry"),
        (lambda: tarred((tar_special("a", tarfile.LNKTYPE, "b"), b"")), "entry"),
        (lambda: tarred((tar_special("a", tarfile.FIFOTYPE), b"")), "entry"),
        (lambda: tarred((tar_special("a", tarfile.CHRTYPE), b"")), "entry"),
        (lambda: zipped(("a", b"\0" * 20_000_000)), "file_size"),
        (lambda: tarred(("a", b"\0" * 200_000)), "file_size"),
        (lambda: tarred(("a", b"\0" * 20_000_000)), "tree_size"),
        (lambda: zipped(*((f"f{i}", b"\0" * 120_000) for i in range(30))), "tree_size"),
        (lambda: zipped(*((f"f{i}", b"") for i in range(500))), "file_count"),
        (lambda: tarred(*((f"f{i}", b"") for i in range(500))), "file_count"),
        (lambda: zipped(("kaizen.json", b'{"a":1,"a":2}')), "json"),
        (lambda: zipped(("kaizen.json", b"[]")), "json"),
        (lambda: zipped(("kaizen.json", b" " * 600_000 + b"{}")), "file_size"),
        (lambda: b"PK\x03\x04" + b"\0" * (2 * 1024 * 1024), "size"),
    ],
)
def test_a_hostile_archive_is_refused_by_rule(make: Callable[[], bytes], rule: str) -> None:
    with pytest.raises(BadArchive) as caught:
        read_archive(make())
    assert rule in {problem.rule for problem in caught.value.problems}
    assert len(str(caught.value)) < 2000


def test_a_name_that_hides_its_end_is_refused() -> None:
    raw = zipped(("ab.py", b"x")).replace(b"ab.py", b"a\x00.py")
    with pytest.raises(BadArchive) as caught:
        read_archive(raw)
    assert caught.value.problems[0].rule == "entry"


def test_escaping_names_come_out_as_they_are_and_the_tree_check_refuses_them() -> None:
    _, files = read_archive(tarred(("../evil", b"x"), ("package.json", PACKAGE_JSON)))
    assert [problem.rule for problem in tree_problems(files)] == ["traversal"]


def test_limits_can_be_tightened() -> None:
    with pytest.raises(BadArchive):
        read_archive(zipped(("a", b"xx")), limits=ArchiveLimits(max_file_bytes=1))


@given(st.binary(max_size=200), st.sampled_from([b"PK\x03\x04", b"\x1f\x8b\x08\x00"]))
@settings(deadline=None)
def test_noise_is_refused_and_nothing_else(noise: bytes, magic: bytes) -> None:
    with pytest.raises(BadArchive):
        read_archive(magic + noise)


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_a_damaged_archive_is_refused_or_read(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([zipped(*TREE.items()), tarred(*TREE.items())]))
    raw = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    # Whatever else were raised would fail the test.
    with contextlib.suppress(BadArchive):
        _, files = read_archive(bytes(raw))
        assert all(isinstance(content, bytes) for content in files.values())
