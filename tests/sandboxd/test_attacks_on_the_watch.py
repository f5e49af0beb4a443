"""Where no control group counts memory, the watcher alone finds it, wherever it is hidden."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.sandbox.client import available
from apps.sandbox.spec import Reason
from tests.sandboxd.daemon import BareDaemon

pytestmark = pytest.mark.sandbox

SPREAD = """
    import ctypes
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    length = 400 << 30
    # Readable, private, no reserve: each touch is answered with the one page of zeros.
    start = libc.mmap(None, length, 1, 0x4022, -1, 0)
    for offset in range(0, length, 2 << 20):
        ctypes.c_ubyte.from_address(start + offset).value
"""
HEADLESS = """
    import ctypes, os, platform, threading, time
    leave = {"x86_64": 60, "aarch64": 93}[platform.machine()]

    def hold():
        time.sleep(0.2)
        kept = bytearray(120 << 20)
        kept[::4096] = b"x" * len(kept[::4096])
        time.sleep(10)

    for _ in range(8):
        if os.fork() == 0:
            threading.Thread(target=hold).start()
            ctypes.CDLL(None).syscall(leave, 0)
    time.sleep(10)
"""


@pytest.fixture(scope="module")
def bare(sandbox_home: Path) -> Iterator[BareDaemon]:
    daemon = BareDaemon(sandbox_home)
    yield daemon
    daemon.remove()


def test_a_machine_without_control_groups_is_said_to_be_one(bare: BareDaemon) -> None:
    report = available(fresh=True, path=bare.socket)
    assert report.ok
    assert any("No control group" in line for line in report.missing)


@pytest.mark.parametrize(
    "source",
    [
        # In the tables that the kernel keeps of a stretch that is touched here and there.
        SPREAD,
        # In processes whose first thread has ended: the rest of them goes on.
        HEADLESS,
    ],
    ids=["tables", "headless"],
)
def test_memory_cannot_be_hidden_from_the_watcher(bare: BareDaemon, source: str) -> None:
    result = bare.python(source, memory_mb=256)
    assert result.reason is Reason.MEMORY_LIMIT, result
