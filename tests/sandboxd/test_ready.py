"""A sandbox that waits for its program serves one job only; where none comes, it is ended."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.domain.egress import Network, NetworkKind
from apps.sandbox.client import available, run
from apps.sandbox.coding.programs import Language, start_of
from apps.sandbox.errors import JobRefused, SandboxUnavailable
from apps.sandbox.spec import SandboxResult, SandboxSpec, WorkFile
from tests.sandboxd.daemon import QUICK, Daemon, UserDaemon, wait_for
from tests.sandboxd.living import Living, python_spec

pytestmark = pytest.mark.sandbox
Starter = Callable[..., Daemon]


def job(source: str = "", **changes: Any) -> SandboxSpec:
    """Return a program of an agent's."""
    start = start_of(Language.PYTHON, textwrap.dedent(source), runtimes=())
    spec = SandboxSpec(
        argv=start.argv, harness=start.harness, stdin=start.stdin, waits=start.waits, limits=QUICK
    )
    return replace(spec, **changes)


def asked(daemon: Daemon, source: str, **changes: Any) -> SandboxResult:
    return run(job(source, **changes), deadline_s=30, path=daemon.socket)


def made_ready(daemon: Daemon) -> int:
    return daemon.log.read_bytes().count(b"A sandbox is ready")


def asked_and_waiting(
    daemon: Daemon, source: str, **changes: Any
) -> tuple[SandboxResult, set[int]]:
    """Run a program; return what came of it, and the processes of what waits for the next."""
    before = made_ready(daemon)
    result = asked(daemon, source, **changes)
    wait_for(lambda: made_ready(daemon) > before)
    return result, set(daemon.children())


def walls_of(processes: set[int]) -> set[str]:
    inside = [
        child
        for pid in processes
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ]
    return {os.readlink(f"/proc/{child}/ns/pid") for child in inside}


@pytest.fixture(params=["own", "user"])
def keeping(sandbox_home: Path, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A supervisor that keeps one sandbox ready: ours, and that of an ordinary user."""
    if request.param == "user" and os.geteuid() != 0:
        pytest.skip("Only root can start the supervisor of another user.")
    kind = UserDaemon if request.param == "user" else Daemon
    one = kind(sandbox_home, "--ready", "1")
    yield one
    one.remove()


@pytest.fixture(scope="module")
def keeping_two(sandbox_home: Path) -> Iterator[Daemon]:
    """A supervisor that keeps two ready, so that none has to make room."""
    one = Daemon(sandbox_home, "--ready", "2")
    yield one
    one.remove()


WALLS = "import os; print(os.readlink('/proc/self/ns/pid'))"
WHO = """
import json, os
print(json.dumps({
    "files": sorted(os.listdir("/tmp") + os.listdir("/workspace") + os.listdir("/dev/shm")),
    "variables": {k: v for k, v in os.environ.items() if k.startswith("KAIZEN_")},
}))
for folder in ("/tmp", "/workspace", "/dev/shm"):
    open(f"{folder}/left-behind", "w").close()
os.environ["KAIZEN_LEFT"] = "behind"
"""


def test_each_program_has_a_sandbox_of_its_own_with_nothing_of_the_one_before(
    keeping: Daemon,
) -> None:
    seen = []
    for number in range(3):
        result, _ = asked_and_waiting(
            keeping,
            WHO,
            env=(("KAIZEN_NUMBER", f"{number}\nof three, ü"),),
            correlation_id=f"call-{number}",
            workspace=(WorkFile(f"file-{number}", b"1"),),
        )
        assert result.reason == "ok", result
        seen.append(json.loads(result.stdout))
    assert [one["files"] for one in seen] == [
        ["file-0", "program.py"], ["file-1", "program.py"], ["file-2", "program.py"]
    ]  # fmt: skip
    assert [one["variables"] for one in seen] == [
        {"KAIZEN_NUMBER": f"{number}\nof three, ü", "KAIZEN_CORRELATION_ID": f"call-{number}"}
        for number in range(3)
    ]


def test_the_next_program_finds_the_sandbox_that_waits(keeping: Daemon) -> None:
    _, before = asked_and_waiting(keeping, "pass")
    walls = walls_of(before)
    assert asked(keeping, WALLS).stdout.decode().strip() in walls


def test_a_program_that_does_not_wait_leaves_nothing_ready(another_daemon: Starter) -> None:
    one = another_daemon("--ready", "1")
    assert one.run("true").reason == "ok"
    assert one.quiet()


def test_none_is_kept_where_the_operator_wants_none(another_daemon: Starter) -> None:
    one = another_daemon("--ready", "0")
    assert asked(one, "print(1)").stdout == b"1\n"
    assert one.quiet()


def test_one_that_dies_while_it_waits_is_nobodys_failure(keeping: Daemon) -> None:
    _, before = asked_and_waiting(keeping, "pass")
    for pid in before:
        held = os.pidfd_open(pid)
        signal.pidfd_send_signal(held, signal.SIGKILL)
        assert select.select([held], [], [], 10)[0]
        os.close(held)
    assert asked(keeping, "print(1)").stdout == b"1\n"


def test_a_supervisor_that_stops_or_is_killed_takes_what_waits_along(keeping: Daemon) -> None:
    _, before = asked_and_waiting(keeping, "pass")
    keeping.process.send_signal(signal.SIGKILL)
    keeping.process.wait()
    wait_for(lambda: not any(Path(f"/proc/{pid}/root", "workspace").exists() for pid in before))
    keeping.restart()
    _, before = asked_and_waiting(keeping, "pass")
    keeping.stop()
    assert not any(Path(f"/proc/{pid}/root", "workspace").exists() for pid in before)


def test_a_new_look_at_the_machine_ends_what_was_launched_before_it(keeping: Daemon) -> None:
    _, before = asked_and_waiting(keeping, "pass")
    assert available(fresh=True, path=keeping.socket).ok
    assert not before & set(keeping.children())


def test_files_that_do_not_fit_are_refused_and_nothing_of_it_stays(keeping: Daemon) -> None:
    asked_and_waiting(keeping, "pass", limits=replace(QUICK, workspace_mb=1))
    large = (WorkFile("large", bytes(2 * 1024 * 1024)),)
    with pytest.raises(JobRefused, match="workspace_mb"):
        asked(keeping, "pass", limits=replace(QUICK, workspace_mb=1), workspace=large)
    assert keeping.quiet()


@pytest.mark.parametrize(
    "other",
    [
        {"limits": replace(QUICK, memory_mb=200)},
        {"argv": ("python", "-I", "-S", "-u", "/kaizen/run_program.py")},
        {"harness": (*job().harness, ("other.py", b"1"))},
        {"files": (("a.py", b"1"),)},
        {"shared": (("a.txt", b"1"),)},
        {"network": Network(NetworkKind.PUBLIC)},
    ],
    ids=lambda one: next(iter(one)),
)
def test_a_job_of_another_kind_never_gets_what_waits(
    keeping_two: Daemon, other: dict[str, Any]
) -> None:
    _, before = asked_and_waiting(keeping_two, "pass")
    walls = walls_of(before)
    told = asked(keeping_two, WALLS, **other)
    assert told.reason == "ok"
    assert told.stdout.decode().strip() not in walls


@pytest.mark.parametrize("where", [1, 2, 3], ids=["output", "errors", "result"])
def test_one_that_says_anything_while_it_waits_is_not_used(keeping_two: Daemon, where: int) -> None:
    talks = f"import os; os.write(1, b'.'); os.write({where}, b'x'); os.read(0, 65536)"
    spec = {"harness": (("run_program.py", talks.encode()),)}
    for _ in range(2):
        asked_and_waiting(keeping_two, "", **spec)
    assert b"it is not used" in keeping_two.log.read_bytes()


def test_a_job_waits_for_what_is_being_made_ready_and_launches_no_other(
    another_daemon: Starter,
) -> None:
    one = another_daemon("--ready", "1", "--jobs", "4")
    slow = "import os, time; time.sleep(0.7); os.write(1, b'.'); os.read(0, 65536)"
    spec = {"harness": (("run_program.py", slow.encode()),)}
    # The second comes while one is launched behind the first, and leaves room for a third.
    for _ in range(2):
        assert asked(one, "", **spec).reason == "ok"
    wait_for(lambda: made_ready(one) >= 2)


def test_no_more_wait_than_may_and_what_was_asked_for_last_has_the_place(
    another_daemon: Starter,
) -> None:
    one = another_daemon("--ready", "1", "--jobs", "4")
    _, first = asked_and_waiting(one, "pass")
    _, second = asked_and_waiting(one, "pass", limits=replace(QUICK, memory_mb=128))
    assert len(first) == len(second) == 1
    assert not first & second


def test_one_job_has_no_more_launched_ahead_than_may_wait(another_daemon: Starter) -> None:
    one = another_daemon("--ready", "2", "--ready-seconds", "1", "--jobs", "4")
    # Each takes longer to launch than the one before it waits.
    slow = "import os, time; time.sleep(1.2); os.write(1, b'.'); os.read(0, 65536)"
    assert asked(one, "", harness=(("run_program.py", slow.encode()),)).reason == "ok"
    wait_for(lambda: made_ready(one) >= 2)
    assert one.quiet()
    assert made_ready(one) == 2


def test_files_that_cannot_be_put_into_what_waits_are_a_refusal(
    another_daemon: Starter,
) -> None:
    one = another_daemon("--ready", "1")
    asked_and_waiting(one, "pass")
    pid = one.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    held = {int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir()}
    free = next(number for number in range(len(held) + 1) if number not in held)
    # The connection takes the last descriptor.
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free + 1, before[1]))
    try:
        with pytest.raises(SandboxUnavailable, match="Too many open files"):
            asked(one, "pass", workspace=(WorkFile("a", b"1"),))
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert asked(one, "print(1)").stdout == b"1\n"


def test_as_many_wait_as_may(another_daemon: Starter) -> None:
    one = another_daemon("--ready", "2", "--jobs", "4")
    asked(one, "pass")
    wait_for(lambda: made_ready(one) >= 2)
    assert len(one.children()) == 2


def test_programs_at_once_never_share_a_sandbox(another_daemon: Starter) -> None:
    one = another_daemon("--ready", "1", "--jobs", "4")
    asked_and_waiting(one, "pass")
    source = "import time\n" + WALLS + "\ntime.sleep(1.5)"
    with ThreadPoolExecutor(4) as pool:
        told = [each.stdout for each in pool.map(lambda _: asked(one, source), range(4))]
    assert len(set(told)) == 4
    wait_for(lambda: len(one.children()) == 1)


def test_what_nobody_wants_is_ended_after_its_time(another_daemon: Starter) -> None:
    one = another_daemon("--ready", "1", "--ready-seconds", "1")
    asked_and_waiting(one, "pass")
    assert one.quiet()
    assert asked(one, "print(1)").stdout == b"1\n"


def test_an_operator_is_told_how_many_wait_and_for_how_long(keeping: Daemon) -> None:
    told = available(fresh=True, path=keeping.socket).in_force
    assert "start: up to 1 launched ahead, each for 30 s" in " ".join(told)


def test_what_lives_on_waits_for_nothing_before_it_begins(daemon: Daemon) -> None:
    with pytest.raises(JobRefused, match="waits for its requests"):
        Living(daemon, "kernel-that-waits", spec=replace(python_spec(), waits=True))
    assert daemon.quiet()


@pytest.mark.parametrize("told", [b"", b"KAIZEN_A=1\0", b"KAIZEN_A=1", b"KAIZEN_A=1\0KAIZEN_B"])
def test_a_program_whose_beginning_never_comes_is_not_begun(daemon: Daemon, told: bytes) -> None:
    start = start_of(Language.PYTHON, "", runtimes=())
    ended = daemon.run(*start.argv, harness=start.harness, stdin=told)
    assert (ended.exit_code, ended.stdout) == (125, b".")
