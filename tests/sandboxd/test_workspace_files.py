"""A workspace goes in as a tree of plain files, and what became of it comes back the same way."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.domain.paths import BadPath, check_tree
from apps.sandbox.client import JobRefused
from apps.sandbox.spec import LeftOut, SandboxResult, WorkChanges, WorkFile
from apps.sandboxd import workspace as module
from apps.sandboxd.job_wire import decode_result, encode_result
from apps.sandboxd.jobs import MAX_REPLY_BODY, Reason
from apps.sandboxd.workfiles import (
    MAX_LEFT_OUT,
    MAX_WORK_FILE,
    MAX_WORK_FILES,
    BadWorkFiles,
    Known,
    change_fields,
    check_work_files,
    known_of,
)
from apps.sandboxd.workspace import stage, take_back
from tests.sandboxd.daemon import Daemon


def changes(result: SandboxResult) -> WorkChanges:
    assert result.workspace is not None
    return result.workspace


@contextmanager
def folder() -> Iterator[tuple[int, Path]]:
    with tempfile.TemporaryDirectory() as place:
        opened = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield opened, Path(place)
        finally:
            os.close(opened)


@contextmanager
def staged(*files: WorkFile) -> Iterator[tuple[int, Path]]:
    with folder() as (opened, place):
        stage(opened, files, uid=None)
        yield opened, place


TREE = (
    WorkFile("main.py", b"print('hello')\n"),
    WorkFile("bin/tool", b"#!/bin/sh\necho tool\n", executable=True),
    WorkFile("data/empty", b""),
)


@pytest.mark.sandbox
def test_a_program_finds_its_files_may_write_them_and_its_changes_come_back(
    daemon: Daemon,
) -> None:
    result = daemon.python(
        """
        import os, subprocess
        assert open("main.py").read() == "print('hello')\\n"
        assert subprocess.check_output(["bin/tool"]) == b"tool\\n"
        assert os.stat("main.py").st_uid == os.getuid()
        open("main.py", "a").write("# more\\n")
        os.remove("data/empty")
        os.makedirs("new/deep")
        open("new/deep/run", "w").write("x")
        os.chmod("new/deep/run", 0o700)
        """,
        workspace=TREE,
        keep_workspace=True,
    )
    assert result.reason == "ok", result
    assert changes(result) == WorkChanges(
        changed=(
            WorkFile("main.py", b"print('hello')\n# more\n"),
            WorkFile("new/deep/run", b"x", executable=True),
        ),
        removed=("data/empty",),
    )


@pytest.mark.sandbox
def test_nothing_comes_back_unless_it_was_asked_for(daemon: Daemon) -> None:
    result = daemon.python("open('x', 'w').close()", workspace=TREE)
    assert result.workspace is None


@pytest.mark.sandbox
def test_bytes_of_files_that_did_not_change_do_not_travel(daemon: Daemon) -> None:
    result = daemon.python("import os; os.utime('main.py')", workspace=TREE, keep_workspace=True)
    assert changes(result) == WorkChanges()


@pytest.mark.sandbox
def test_a_mode_alone_is_a_change(daemon: Daemon) -> None:
    result = daemon.python(
        "import os; os.chmod('main.py', 0o755)", workspace=TREE, keep_workspace=True
    )
    assert changes(result).changed == (WorkFile("main.py", b"print('hello')\n", executable=True),)


@pytest.mark.sandbox
def test_a_workspace_comes_back_from_a_killed_sandbox_too(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import time
        open("/workspace/partial", "w").write("so far")
        time.sleep(60)
        """,
        wall_ms=1500,
        keep_workspace=True,
    )
    assert result.reason == "wall_timeout"
    assert changes(result).changed == (WorkFile("partial", b"so far"),)


@pytest.mark.sandbox
def test_links_and_specials_are_left_out_named_and_change_nothing(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import os, socket
        os.chdir("/workspace")
        os.symlink("/etc/passwd", "link")
        os.symlink("/", "root")
        open("real", "w").write("x")
        os.link("real", "hard")
        os.mkfifo("fifo")
        socket.socket(socket.AF_UNIX).bind("socket")
        os.remove("main.py")
        os.symlink("/proc/1/environ", "main.py")
        os.rename("bin", "elsewhere")
        os.symlink("elsewhere", "bin")
        open(b"half-\\xff", "w").close()
        open("bell-\\x07", "w").close()
        open("MAIN.PY", "w").write("second")
        """,
        workspace=TREE,
        keep_workspace=True,
    )
    assert changes(result) == WorkChanges(
        changed=(
            WorkFile("MAIN.PY", b"second"),
            WorkFile("elsewhere/tool", b"#!/bin/sh\necho tool\n", executable=True),
        ),
        removed=("bin/tool",),
        left_out=tuple(
            LeftOut(name, code)
            for name, code in [
                ("bell-\\x07", "bad_name"),
                ("bin", "link"),
                ("fifo", "not_a_file"),
                ("half-\\xff", "bad_name"),
                ("hard", "hard_link"),
                ("link", "link"),
                ("main.py", "link"),
                ("real", "hard_link"),
                ("root", "link"),
                ("socket", "not_a_file"),
            ]
        ),
        left_out_total=10,
    )


@pytest.mark.sandbox
def test_a_survivor_cannot_swap_a_file_while_it_is_taken_back(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import os
        if os.fork() == 0:
            os.setsid()
            while True:
                os.symlink("/etc/passwd", "/workspace/swap")
                os.rename("/workspace/swap", "/workspace/main.py")
                open("/workspace/next", "w").write("honest")
                os.rename("/workspace/next", "/workspace/main.py")
        """,
        workspace=TREE,
        keep_workspace=True,
    )
    seen = {file.name: file.content for file in changes(result).changed}
    assert set(seen) <= {"main.py", "next"}
    assert all(content in (b"honest", b"", b"print('hello')\n") for content in seen.values())


@pytest.mark.sandbox
def test_files_that_do_not_fit_are_refused_before_anything_runs(daemon: Daemon) -> None:
    with pytest.raises(JobRefused, match="workspace_mb"):
        daemon.python("pass", workspace_mb=1, workspace=(WorkFile("big", bytes(2 * 1024 * 1024)),))
    assert daemon.python("pass").reason == "ok"


@pytest.mark.sandbox
def test_the_largest_workspace_goes_in_and_out(daemon: Daemon) -> None:
    mebibytes = tuple(WorkFile(f"d{n % 7}/f{n}", bytes([n]) * 1024 * 1024) for n in range(62))
    small = tuple(WorkFile(f"s/{n}", str(n).encode()) for n in range(MAX_WORK_FILES - 62))
    result = daemon.python(
        """
        import os
        for where, _, names in os.walk("/workspace"):
            for name in names:
                with open(os.path.join(where, name), "r+b") as file:
                    first = file.read(1)
                    file.seek(0)
                    file.write(bytes([first[0] ^ 1]))
        """,
        workspace=(*mebibytes, *small),
        keep_workspace=True,
        workspace_mb=128,
        memory_mb=512,
    )
    assert result.reason == "ok", result
    assert len(changes(result).changed) == MAX_WORK_FILES
    assert changes(result).removed == ()


def test_too_many_files_and_too_many_bytes_come_back_as_a_code_alone() -> None:
    with staged() as (opened, place):
        for number in range(MAX_WORK_FILES):
            (place / f"f{number}").touch()
        assert len(take_back(opened, {}).changed) == MAX_WORK_FILES
        (place / "one-more").touch()
        assert take_back(opened, {}) == WorkChanges(over="too_many_files")
    with staged() as (opened, place):
        for number in range(2):
            (place / f"f{number}").write_bytes(bytes(MAX_WORK_FILE))
        assert len(take_back(opened, {}).changed) == 2
        (place / "one-more").write_bytes(b"x")
        assert take_back(opened, {}) == WorkChanges(over="too_many_bytes")


def test_a_file_that_has_grown_too_large_stays_as_it_was() -> None:
    file = WorkFile("a", b"small")
    with staged(file) as (opened, place):
        os.truncate(place / "a", MAX_WORK_FILE + 1)
        assert take_back(opened, known_of([file])) == WorkChanges(
            left_out=(LeftOut("a", "too_large"),), left_out_total=1
        )


def test_names_without_end_do_not_hold_up_the_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 10)
    with staged() as (opened, place):
        for number in range(11):
            (place / f"l{number}").symlink_to("x")
        assert take_back(opened, {}) == WorkChanges(over="too_many_files")


def test_only_so_many_left_out_names_are_told_and_all_are_counted() -> None:
    with staged() as (opened, place):
        for number in range(MAX_LEFT_OUT + 7):
            (place / f"l{number}").symlink_to("x")
        seen = take_back(opened, {})
        assert (len(seen.left_out), seen.left_out_total) == (MAX_LEFT_OUT, MAX_LEFT_OUT + 7)


def test_of_names_that_clash_the_one_that_was_there_first_is_kept() -> None:
    file = WorkFile("src/b.py", b"x")
    with staged(file) as (opened, place):
        (place / "SRC").mkdir()
        (place / "SRC" / "a.py").touch()
        (place / "src" / "B.py").touch()
        seen = take_back(opened, known_of([file]))
    assert seen == WorkChanges(
        left_out=(LeftOut("SRC/a.py", "clash"), LeftOut("src/B.py", "clash")), left_out_total=2
    )


def test_names_that_are_left_out_are_told_in_a_form_that_nothing_obeys() -> None:
    with staged() as (opened, place):
        for name in ("line\nbreak", "red\x1b[31m", "tab\t", "turned\N{RIGHT-TO-LEFT OVERRIDE}"):
            (place / name).touch()
        seen = take_back(opened, {})
    told = change_fields(seen)
    assert told is not None
    assert told["left_out"] == [
        ["line\\x0abreak", "bad_name"],
        ["red\\x1b[31m", "bad_name"],
        ["tab\\x09", "bad_name"],
        ["turned\\x202e", "bad_name"],
    ]


def test_of_many_folders_that_nobody_may_open_the_files_below_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opens = module.open_beneath

    def closed(folder: int, name: str, *asked: int) -> int:
        # Root may open everything, and tests may run as root.
        if name.startswith("closed"):
            raise PermissionError(errno.EACCES, "closed")
        return opens(folder, name, *asked)

    with staged() as (opened, place):
        for number in range(3_000):
            (place / f"closed-{number}").mkdir()
        nothing = Known(1, b"", executable=False)
        gone = {f"gone/{number}/x": nothing for number in range(MAX_WORK_FILES)}
        kept = dict.fromkeys(("closed-7/deep/x", "closed-8/x"), nothing)
        monkeypatch.setattr(module, "open_beneath", closed)
        seen = take_back(opened, {**gone, **kept})
    assert seen.removed == tuple(sorted(gone))
    assert (seen.left_out[0].code, seen.left_out_total) == ("unreadable", 3_000)


def test_folders_without_end_are_left_out() -> None:
    with staged() as (opened, place):
        deep = place
        for _ in range(40):
            deep = deep / "d"
            deep.mkdir()
        (deep / "x").touch()
        seen = take_back(opened, {})
    assert seen.changed == ()
    assert [one.code for one in seen.left_out] == ["too_deep"]


NAMES = st.lists(
    st.text(st.sampled_from("aAbé .-ß\N{KELVIN SIGN}"), min_size=1, max_size=4),
    min_size=1,
    max_size=3,
).map("/".join)
FILES = st.lists(st.builds(WorkFile, NAMES, st.binary(max_size=40), st.booleans()), max_size=8)


def allowed(files: list[WorkFile]) -> bool:
    try:
        check_tree([file.name for file in files], max_files=MAX_WORK_FILES)
    except BadPath:
        return False
    return True


@settings(max_examples=150, deadline=None)
@given(FILES.filter(allowed), FILES.filter(allowed))
def test_any_tree_goes_in_and_comes_out_as_it_was_or_as_it_became(
    before: list[WorkFile], after: list[WorkFile]
) -> None:
    with staged(*before) as (opened, _):
        assert take_back(opened, {}).changed == tuple(sorted(before))
        assert take_back(opened, known_of(before)) == WorkChanges()
    with staged(*after) as (opened, _):
        seen = take_back(opened, known_of(before))
        put = {file.name: file for file in before}
        for name in seen.removed:
            del put[name]
        put.update((file.name, file) for file in seen.changed)
        left_out = {one.name for one in seen.left_out}
        expected = {file.name: file for file in after if file.name not in left_out}
        assert {n: f for n, f in put.items() if n not in left_out} == expected
        assert allowed(list(put.values()))


@settings(max_examples=100, deadline=None)
@given(FILES, st.lists(NAMES, max_size=5), st.binary(max_size=20))
def test_changes_travel_unharmed(files: list[WorkFile], removed: list[str], stdout: bytes) -> None:
    seen = WorkChanges(tuple(files), tuple(removed), (LeftOut("x", "link"),), 9, "")
    result = SandboxResult(Reason.OK, stdout=stdout, workspace=seen)
    assert decode_result(encode_result(result)) == result
    assert len(encode_result(result).body) < MAX_REPLY_BODY


@pytest.mark.parametrize(
    "files",
    [
        [WorkFile("../x", b"")],
        [WorkFile("/x", b"")],
        [WorkFile("a", b""), WorkFile("a/b", b"")],
        [WorkFile("a", b""), WorkFile("A", b"")],
        [WorkFile("a", bytes(MAX_WORK_FILE + 1))],
        [WorkFile(str(n), bytes(MAX_WORK_FILE)) for n in range(3)],
        [WorkFile(str(n), b"") for n in range(MAX_WORK_FILES + 1)],
    ],
)
def test_what_no_workspace_takes_is_refused(files: list[WorkFile]) -> None:
    with pytest.raises(BadWorkFiles):
        check_work_files(files)


def test_staging_follows_no_link_that_stands_in_its_way() -> None:
    with folder() as (opened, place):
        outside = Path(tempfile.mkdtemp())
        (place / "out").symlink_to(outside)
        with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
            stage(opened, [WorkFile("out/x", b"x")], uid=None)
        assert not any(outside.iterdir())
        outside.rmdir()
