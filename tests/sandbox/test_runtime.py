"""The sandbox's Python is there for any user, wherever the running one lies."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apps.sandbox import runtime
from apps.sandbox.elf import NotElf, read_dynamic, retarget
from apps.sandbox.runtime import NoRuntime, provision_runtime


def test_a_copy_is_made_once_and_found_again(tmp_path: Path) -> None:
    if Path(sys.base_prefix).resolve() == Path("/usr"):
        pytest.skip("A Python below /usr is not copied.")
    tmp_path.chmod(0o755)
    home = Path("/var/tmp") / f"kaizen-runtime-{os.getpid()}"
    try:
        first = provision_runtime(home)
        stamp = first.executable.stat().st_ino
        again = provision_runtime(home)
        assert again == first
        assert again.executable.stat().st_ino == stamp
        assert (home / "python").readlink() == first.executable
        assert sorted(one.name for one in home.iterdir()) == [
            first.executable.parents[1].name, "python",
        ]  # fmt: skip
        said = subprocess.run(
            [first.executable, "-I", "-S", "-c", "import sys, json; print(sys.prefix, sys.path)"],
            env={}, cwd="/", check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        assert said.startswith(str(first.executable.parents[1]))
        assert sys.base_prefix not in said
        library = next((first.executable.parents[1] / "lib").glob("python3*"))
        for absent in ("site-packages", "test", "idlelib"):
            assert not (library / absent).exists()
        for file in first.executable.parents[1].rglob("*"):
            assert file.stat().st_mode & 0o004, file
            assert not file.stat().st_mode & 0o022, file
    finally:
        shutil.rmtree(home, ignore_errors=True)


def test_a_half_made_copy_is_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if Path(sys.base_prefix).resolve() == Path("/usr"):
        pytest.skip("A Python below /usr is not copied.")

    def fail(executable: Path) -> None:
        raise NoRuntime("It does not start.")

    monkeypatch.setattr(runtime, "_try", fail)
    with pytest.raises(NoRuntime):
        provision_runtime(tmp_path / "runtime")
    assert list((tmp_path / "runtime").iterdir()) == []


def test_a_folder_that_sandbox_users_cannot_enter_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0 or Path(sys.base_prefix).resolve() == Path("/usr"):
        pytest.skip("Only a supervisor started as root has users of its own for sandboxes.")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(NoRuntime, match="cannot reach"):
        provision_runtime(closed / "runtime")


def test_search_paths_of_a_program_are_read_and_replaced(tmp_path: Path) -> None:
    program = Path("/bin/sh").resolve()
    assert any(name.startswith("libc.") for name in read_dynamic(program.read_bytes()).needed)
    copy = tmp_path / "sh"
    shutil.copy(program, copy)
    assert retarget(copy, Path("/nonexistent"), "$ORIGIN/../lib")
    assert copy.read_bytes() == program.read_bytes()


@pytest.mark.parametrize(
    "content", [b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01", b"\x7fELF\x01\x01" * 90]
)
def test_other_files_are_no_programs(content: bytes) -> None:
    with pytest.raises(NotElf):
        read_dynamic(content)
