"""Callers of the sandbox hear clearly when nothing was run, and never fall back."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apps.domain.entries import NodeEntry, PiEntry
from apps.domain.wire import Message, MessageReader, encode
from apps.sandbox.client import Limits, SandboxSpec, SandboxUnavailable, available, run
from apps.sandbox.node import call_node_tool, run_node_tests
from apps.sandbox.pi import PiLoader, call_pi_tool
from apps.sandbox.runner import call_python_tool, run_unittests
from apps.sandbox.spec import ProbeStatus
from apps.sandboxd.job_wire import decode_job
from tests.sandboxd.daemon import Daemon

SPEC = SandboxSpec(argv=("true",))


def test_without_a_supervisor_nothing_runs(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="not running"):
        run(SPEC, deadline_s=5, path=tmp_path / "missing.sock")
    with pytest.raises(SandboxUnavailable, match="not running"):
        run(SPEC, deadline_s=5, path=tmp_path / "no" / "folder" / "s.sock")
    assert available(path=tmp_path / "missing.sock").status is ProbeStatus.NOT_RUNNING


def test_without_a_setting_nothing_runs(settings: Any) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = ""
    with pytest.raises(SandboxUnavailable, match="KAIZEN_SANDBOXD_SOCKET"):
        run(SPEC, deadline_s=5)
    assert not available(fresh=True).ok


def test_a_supervisor_that_hangs_is_not_waited_for_by_those_without_patience(
    tmp_path: Path,
) -> None:
    with socket.socket(socket.AF_UNIX) as hung:
        opened = os.open(tmp_path, os.O_RDONLY)
        hung.bind(f"/proc/self/fd/{opened}/hung.sock")
        os.close(opened)
        hung.listen()
        report = available(path=tmp_path / "hung.sock", patience=0.05)
    assert (report.status, report.ok) == (ProbeStatus.FAILED, False)
    assert "in time" in report.sentence


@contextlib.contextmanager
def false_supervisor(
    folder: Path, *answers: bytes, heard: list[Message] | None = None
) -> Iterator[Path]:
    """Listen like a supervisor, read a job, answer with these bytes, and hang up."""
    path = folder / "false.sock"
    listening = socket.socket(socket.AF_UNIX)
    # The test's folder may be deeper than a socket's name has room for.
    opened = os.open(folder, os.O_RDONLY)
    listening.bind(f"/proc/self/fd/{opened}/false.sock")
    os.close(opened)
    listening.listen()

    def serve() -> None:
        link, _ = listening.accept()
        with link:
            reader = MessageReader(max_body=1 << 20)
            while not (found := list(reader.feed(link.recv(1 << 20)))):
                pass
            if heard is not None:
                heard.extend(found)
            for answer in answers:
                link.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    yield path
    thread.join()
    listening.close()


STARTED = encode(Message("started", {"python": "3"}))
TREE = {"package.json": b"{}", "tool.py": b""}
JOBS: dict[str, Callable[..., object]] = {
    "python tool": partial(call_python_tool, tree=TREE, entry="tool:run", arguments={}),
    "node tool": partial(call_node_tool, tree=TREE, entry=NodeEntry("a.mjs", "a"), arguments={}),
    "pi tool": partial(
        call_pi_tool, tree=TREE, entry=PiEntry("a.ts", "a"), parameters={}, arguments={}
    ),
    "python tests": partial(run_unittests, tree=TREE),
    "node tests": partial(run_node_tests, tree=TREE),
    "pi resources": lambda deadline_s, path: PiLoader(
        TREE, time.monotonic() + deadline_s, path=path
    ).resolve({}),
}


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_a_job_without_a_limit_of_its_own_has_the_time_of_its_deadline(
    job: Callable[..., object], tmp_path: Path
) -> None:
    heard: list[Message] = []
    with (
        false_supervisor(tmp_path, heard=heard) as path,
        # It hangs up, which some tell as an outcome and others raise.
        contextlib.suppress(SandboxUnavailable),
    ):
        job(deadline_s=200, path=path)
    (message,) = heard
    spec, _ = decode_job(message)
    assert 190_000 < spec.limits.wall_ms <= 200_000


@pytest.mark.parametrize("answers", [[], [b"nonsense" * 20], [encode(Message("what"))]])
def test_an_answer_that_is_none_before_the_start_means_nothing_ran(
    tmp_path: Path, answers: list[bytes]
) -> None:
    with false_supervisor(tmp_path, *answers) as path, pytest.raises(SandboxUnavailable):
        run(SPEC, deadline_s=5, path=path)


@pytest.mark.parametrize("answers", [[STARTED], [STARTED, b"KZ"], [STARTED, b"nonsense" * 20]])
def test_a_supervisor_lost_after_the_start_is_a_result(
    tmp_path: Path, answers: list[bytes]
) -> None:
    with false_supervisor(tmp_path, *answers) as path:
        assert run(SPEC, deadline_s=5, path=path).reason == "driver_failed"


@pytest.mark.sandbox
def test_the_deployments_ceilings_hold_and_are_recorded(daemon: Daemon, settings: Any) -> None:
    settings.KAIZEN_SANDBOXD_SOCKET = str(daemon.socket)
    settings.KAIZEN_SANDBOX_CEILINGS = {"memory_mb": 100}
    result = run(
        SandboxSpec(argv=("true",), limits=Limits(memory_mb=5000), correlation_id="a b\n"),
        deadline_s=20,
    )
    assert result.reason == "ok"
    assert [(one.name, one.asked, one.given) for one in result.clamped] == [
        ("memory_mb", 5000, 100)
    ]


@pytest.mark.sandbox
def test_the_deadline_bounds_a_longer_limit(daemon: Daemon) -> None:
    spec = SandboxSpec(argv=("sleep", "60"), limits=Limits(wall_ms=60_000))
    result = run(spec, deadline_s=0.7, path=daemon.socket)
    assert result.reason == "wall_timeout"
    assert result.stats.wall_ms < 10_000
