"""What a parsing child may still do once it is locked down: compute, read its pipe, answer."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from apps.sandbox.syntax.lockdown import (
    ALLOWED,
    UNLESS_EXECUTABLE,
    LockdownFailed,
    build_filter,
)

ROOT = Path(__file__).resolve().parents[3]
LOCK = (
    "import os, socket, mmap\n"
    "from apps.sandbox.syntax.lockdown import lock_down\n"
    "lock_down(memory=1 << 30, cpu_seconds=10)\n"
)


def run(attempt: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LOCK + attempt],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "attempt",
    [
        "open('/etc/passwd')",
        "os.listdir('/')",
        "os.readlink('/proc/self/exe')",
        "os.unlink('/tmp/none')",
        "socket.socket()",
        "os.fork()",
        "os.execv('/bin/true', ['true'])",
        "os.kill(os.getppid(), 0)",
        "os.pipe()",
        "os.dup(0)",
        "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)",
    ],
)
def test_a_locked_process_is_refused(attempt: str) -> None:
    ended = run(attempt)
    assert ended.returncode == 1
    assert "PermissionError" in ended.stderr


def test_a_locked_process_still_computes_and_writes() -> None:
    ended = run("x = bytearray(50_000_000); os.write(1, str(sum(x)).encode())")
    assert (ended.returncode, ended.stdout) == (0, "0")


def test_a_locked_process_cannot_take_more_memory_than_it_is_given() -> None:
    assert "MemoryError" in run("bytearray(2 << 30)").stderr


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_there_is_a_filter_for_each_processor_that_we_support(machine: str) -> None:
    assert len(build_filter(machine)) % 8 == 0


def test_an_unknown_processor_parses_nothing() -> None:
    with pytest.raises(LockdownFailed):
        build_filter("vax")


@pytest.mark.parametrize(
    ("header", "column"), [("x86_64-linux-gnu/asm/unistd_64.h", 0), ("asm-generic/unistd.h", 1)]
)
def test_numbers_are_those_of_the_kernel_headers(header: str, column: int) -> None:
    file = Path("/usr/include", header)
    if not file.is_file():
        pytest.skip("The kernel's headers are not installed here.")
    found = {
        match[1]: int(match[2])
        for match in re.finditer(r"#define __NR(?:3264)?_(\w+) (\d+)", file.read_text())
    }
    for name, numbers in {**ALLOWED, **UNLESS_EXECUTABLE}.items():
        assert found[name] == numbers[column], name
