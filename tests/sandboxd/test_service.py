"""The supervisor answers only whom it may, bounds what it takes, and leaves nothing behind."""

import contextlib
import hashlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from apps.domain.wire import Message, MessageReader, encode
from apps.sandbox.client import JobRefused, SandboxBusy
from apps.sandbox.spec import Limits, SandboxSpec
from apps.sandboxd.job_wire import encode_job
from tests.sandboxd.daemon import CLONE, QUICK, Daemon, as_root, wait_for

pytestmark = pytest.mark.sandbox
Starter = Callable[..., Daemon]


def talk(daemon: Daemon, data: bytes) -> Message | None:
    """Send raw bytes and return the first answer."""
    reader = MessageReader(max_body=1 << 20)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(20)
        link.connect(str(daemon.socket))
        link.sendall(data)
        link.shutdown(socket.SHUT_WR)
        while received := link.recv(65536):
            for message in reader.feed(received):
                return message
    return None


def job_fields(**changes: object) -> Message:
    message = encode_job(SandboxSpec(argv=("true",)), deadline_ms=5000)
    return Message("job", {**message.fields, **changes}, message.body)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"KZ\x01\n" + struct.pack(">II", 1 << 30, 0),
        b"KZ\x01\n" + struct.pack(">II", 2, 1 << 31) + b"{}",
        b"KZ\x01\n" + struct.pack(">II", 2, 0) + b"{}",
        b"KZ\x01\n" + struct.pack(">II", 4, 0) + b"null",
        b"KZ\x01\n" + struct.pack(">II", 8, 0) + b'{"a":1,}',
        encode(Message("shutdown")),
        encode(job_fields(root=True)),
        encode(job_fields(argv=[])),
        encode(job_fields(argv=[1])),
        encode(job_fields(argv="true")),
        encode(job_fields(deadline_ms=0)),
        encode(job_fields(deadline_ms="soon")),
        encode(job_fields(limits={"memory_mb": -1})),
        encode(job_fields(limits={"memory_gb": 1})),
        encode(job_fields(limits={"memory_mb": True})),
        encode(job_fields(stdin=5)),
        encode(job_fields(files=[["../x", 0]])),
        encode(job_fields(files=[["a", 0], ["A", 0]])),
        encode(job_fields(env=[["LD_PRELOAD", "x"]])),
        encode(job_fields(env=[["PYTHONPATH", "x"]])),
        encode(job_fields(outputs=["/etc/passwd"])),
        encode(job_fields(correlation_id="a b")),
    ],
)
def test_what_is_no_job_is_refused_and_nothing_runs(daemon: Daemon, data: bytes) -> None:
    answer = talk(daemon, data)
    assert answer is not None
    assert answer.kind == "refused"
    assert answer.fields["code"] == "bad_job"


def test_a_cut_message_gets_no_answer_and_does_no_harm(daemon: Daemon) -> None:
    assert talk(daemon, encode(job_fields())[:-3]) is None
    assert daemon.run("true").reason == "ok"


def test_an_asker_that_leaves_takes_its_sandbox_along(daemon: Daemon) -> None:
    spec = SandboxSpec(argv=("sleep", "300"), limits=Limits(wall_ms=300_000))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(20)
        link.connect(str(daemon.socket))
        link.sendall(encode(encode_job(spec, deadline_ms=300_000)))
        (started,) = MessageReader(max_body=0).feed(link.recv(65536))
        assert started.kind == "started"
        assert daemon.children()
    assert daemon.quiet()


def test_a_call_can_be_cancelled(daemon: Daemon) -> None:
    asked: list[float] = []

    def cancelled() -> bool:
        asked.append(time.monotonic())
        return len(asked) > 2

    result = daemon.run("sleep", "300", limits=Limits(wall_ms=300_000), cancelled=cancelled)
    assert result.reason == "cancelled"
    assert daemon.quiet()


def test_output_arrives_while_the_program_runs(daemon: Daemon) -> None:
    heard: list[tuple[str, bytes]] = []
    daemon.run(
        "sh", "-c", "echo one; sleep 0.3; echo two >&2",
        on_output=lambda stream, chunk: heard.append((stream, chunk)),
    )  # fmt: skip
    assert heard == [("stdout", b"one\n"), ("stderr", b"two\n")]


def test_standard_input_arrives_whole(daemon: Daemon) -> None:
    data = os.urandom(3 * 1024 * 1024)
    result = daemon.run("sha256sum", stdin=data)
    assert result.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_a_program_that_ignores_its_input_is_no_failure(daemon: Daemon) -> None:
    assert daemon.run("true", stdin=b"x" * 1024 * 1024).reason == "ok"


def test_an_exit_code_is_told(daemon: Daemon) -> None:
    result = daemon.run("sh", "-c", "exit 7")
    assert (result.reason, result.exit_code) == ("exit", 7)
    missing = daemon.run("no-such-program")
    assert (missing.reason, missing.exit_code) == ("exit", 127)


def test_wishes_above_the_ceiling_are_clamped_and_said(another_daemon: Starter) -> None:
    one = another_daemon("--ceiling", "memory_mb=64", "--ceiling", "wall_ms=5000")
    result = one.run("true", limits=Limits(memory_mb=512, wall_ms=9000, open_files=1))
    given = {clamp.name: (clamp.asked, clamp.given) for clamp in result.clamped}
    assert given == {
        "memory_mb": (512, 64),
        "wall_ms": (9000, 5000),
        "open_files": (1, 32),
    }


def test_more_jobs_than_sandboxes_wait_and_too_many_are_refused(another_daemon: Starter) -> None:
    one = another_daemon("--jobs", "1", "--queue", "1")
    results: list[str] = []

    def run() -> None:
        results.append(one.run("sleep", "2").reason)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
        time.sleep(0.5)
    with pytest.raises(SandboxBusy, match="too many"):
        one.run("true")
    for thread in threads:
        thread.join()
    assert results == ["ok", "ok"]


def test_a_job_that_finds_no_sandbox_before_its_deadline_did_not_run(
    another_daemon: Starter,
) -> None:
    one = another_daemon("--jobs", "1")
    thread = threading.Thread(target=one.run, args=("sleep", "3"))
    thread.start()
    time.sleep(0.5)
    with pytest.raises(SandboxBusy, match="in time"):
        one.run("true", deadline_s=0.5)
    thread.join()


def test_a_storm_of_launches_all_succeed(daemon: Daemon) -> None:
    reasons = [daemon.run("true", limits=Limits(processes=1)).reason for _ in range(40)]
    assert set(reasons) == {"ok"}


def test_nothing_is_left_after_calls_of_every_kind(another_daemon: Starter) -> None:
    one = another_daemon()
    one.run("true")
    wait_for(lambda: not one.children())
    descriptors, before = one.descriptors(), sorted(one.state.rglob("*"))
    for _ in range(3):
        one.run("true", files=(("a", b"x"),), outputs=("a",))
        one.run("sleep", "60", limits=Limits(wall_ms=300))
        one.python("import os; os.abort()")
        one.python("while True: os.fork() if (os := __import__('os')) else 0", wall_ms=500)
    assert one.quiet()
    # The last connection closes a moment after its answer was sent.
    wait_for(lambda: one.descriptors() <= descriptors)
    assert sorted(one.state.rglob("*")) == before
    assert [call for tree in groups_of(one) for call in tree.glob("call-*")] == []
    assert str(one.folder) not in Path("/proc/self/mountinfo").read_text()
    one.stop()
    assert sorted(path.name for path in one.folder.iterdir()) == ["log", "state"]


def groups_of(one: Daemon) -> list[Path]:
    """Return the control groups of one supervisor."""
    tag = hashlib.sha256(str(one.state.resolve()).encode()).hexdigest()[:12]
    return list(Path("/sys/fs/cgroup").rglob(f"kaizen-{tag}"))


def sleeper(one: Daemon) -> threading.Thread:
    """Ask for a long call and return once its program runs."""
    heard = threading.Event()

    def ask() -> None:
        one.run(
            "sh", "-c", "echo up; sleep 300",
            limits=Limits(wall_ms=300_000), on_output=lambda *_: heard.set(),
        )  # fmt: skip

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    assert heard.wait(30)
    return thread


def test_a_job_that_is_cancelled_while_it_waits_did_not_run(another_daemon: Starter) -> None:
    one = another_daemon("--jobs", "1")
    thread = sleeper(one)
    result = one.run("true", cancelled=lambda: True)
    assert result.reason == "cancelled"
    assert result.stats.wall_ms == 0
    one.stop()
    thread.join(20)


def test_the_term_signal_ends_everything_soon(another_daemon: Starter) -> None:
    one = another_daemon()
    thread = sleeper(one)
    below = family(one.process.pid)
    assert len(below) >= 2
    assert one.stop() < 5
    thread.join(10)
    wait_for(lambda: not [pid for pid in below if alive(pid)])


def test_sandboxes_die_with_a_killed_supervisor(another_daemon: Starter) -> None:
    one = another_daemon()
    thread = sleeper(one)
    below = family(one.process.pid)
    one.process.send_signal(signal.SIGKILL)
    one.process.wait(10)
    thread.join(30)
    assert not thread.is_alive()
    wait_for(lambda: not [pid for pid in below if alive(pid)])
    # The next one takes over the socket and removes the control group that was left.
    one.restart()
    assert one.run("true").reason == "ok"
    assert one.stop() < 5
    assert groups_of(one) == []


def family(pid: int) -> set[int]:
    """Return every process below one."""
    found: set[int] = set()
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for child in map(int, children.read_text().split()):
                found |= {child} | family(child)
    return found


def alive(pid: int) -> bool:
    """Tell whether a process still runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_two_supervisors_do_not_share_a_folder(daemon: Daemon) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "apps.sandboxd", "--socket", f"{daemon.socket}2",
         "--state", str(daemon.state)],
        cwd=CLONE, env={}, capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    assert second.returncode == 1
    assert b"Another supervisor" in second.stderr


def test_a_stranger_may_not_ask(another_daemon: Starter) -> None:
    if not as_root():
        pytest.skip("Only root can act as somebody else.")
    one = another_daemon()
    one.socket.chmod(0o666)
    script = (
        "import socket,sys\n"
        "link = socket.socket(socket.AF_UNIX)\n"
        f"link.connect({str(one.socket)!r})\n"
        "try:\n    sys.exit(len(link.recv(100)))\nexcept ConnectionResetError:\n    pass\n"
    )
    stranger = subprocess.run(["/usr/bin/python3", "-c", script], user=65534, group=65534, env={})
    assert stranger.returncode == 0
    assert b"not allowed" in one.log.read_bytes()
    friendly = another_daemon("--allow-uid", "65534")
    assert friendly.socket.stat().st_mode & 0o777 == 0o666


def test_the_supervisor_loads_nothing_of_the_application() -> None:
    code = (
        "import sys, apps.sandboxd.__main__\n"
        "foreign = {m.split('.')[0] for m in sys.modules} & "
        "{'django', 'redis', 'celery', 'psycopg', 'kaizen', 'structlog'}\n"
        "ours = {m for m in sys.modules if m.startswith('apps.')"
        " and not m.startswith(('apps.sandboxd', 'apps.domain'))}\n"
        "domain = {m for m in sys.modules if m.startswith('apps.domain.')}\n"
        "assert not foreign and not ours, (foreign, ours)\n"
        "known = {f'apps.domain.{name}' for name in ('wire', 'paths', 'egress', 'words')}\n"
        "assert domain <= known, domain\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=CLONE, env={}, check=True)


def test_bubblewrap_is_never_started_as_root() -> None:
    if not as_root():
        pytest.skip("Only root could make this mistake.")
    code = (
        "import os\n"
        "os.closerange(3, 256)\n"
        "from apps.sandboxd.launch import Launcher, LaunchFailed\n"
        "try:\n"
        "    Launcher().spawn(['true'], streams=(0, 1, 2), result=0, passed=[], uid=None)\n"
        "except LaunchFailed as problem:\n"
        "    assert 'never' in str(problem)\n"
        "else:\n"
        "    raise SystemExit('It ran.')\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=CLONE, env={}, check=True, close_fds=True)


def test_a_forged_job_cannot_name_a_surrogate(daemon: Daemon) -> None:
    with pytest.raises(JobRefused):
        daemon.run("echo", "\ud800", limits=QUICK)
