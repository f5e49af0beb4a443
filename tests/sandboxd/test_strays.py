"""A supervisor that was killed in the middle of a launch leaves nothing to the next one."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from apps.sandboxd.strays import end_strays, name_of
from tests.sandboxd.daemon import Daemon

Waiting = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    """Starts a process that waits for ever under a name, as half a launch would."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([name, "infinity"], executable="/usr/bin/sleep")
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_what_bears_the_name_is_ended_and_counted(waiting: Waiting) -> None:
    ours, others = name_of(f"mine-{os.getpid()}"), name_of(f"theirs-{os.getpid()}")
    strays, stranger = [waiting(ours) for _ in range(3)], waiting(others)
    assert end_strays(ours) == 3
    assert [stray.wait(5) for stray in strays] == [-9, -9, -9]
    assert stranger.poll() is None
    assert end_strays(ours) == 0


def test_a_name_further_on_in_the_line_or_only_like_it_is_left_alone(waiting: Waiting) -> None:
    ours = name_of(f"mine-{os.getpid()}")
    longer = waiting(f"{ours}0")
    behind = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", ours])
    try:
        assert end_strays(ours) == 0
        assert longer.poll() is None
        assert behind.poll() is None
    finally:
        behind.kill()
        behind.wait()


def test_the_next_supervisor_of_a_folder_ends_what_the_last_one_left(
    another_daemon: Callable[..., Daemon], waiting: Waiting
) -> None:
    one = another_daemon()
    folder = hashlib.sha256(str(one.state.resolve()).encode()).hexdigest()[:12]
    stray, stranger = waiting(name_of(folder)), waiting(name_of("0" * 12))
    one.process.kill()
    one.process.wait()
    one.restart()
    assert stray.wait(5) == -9
    assert stranger.poll() is None
    assert "1 launches" in one.log.read_text()
    assert one.run("true").reason == "ok"
