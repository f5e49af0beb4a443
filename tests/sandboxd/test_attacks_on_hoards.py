"""Nothing piles up where no limit looks: nameless memory, kernel queues, pipes, dead files."""

import json
import signal
from collections.abc import Callable

import pytest

from apps.sandbox.spec import Limits
from tests.sandboxd.daemon import Daemon

pytestmark = pytest.mark.sandbox


def test_no_file_without_a_name_hides_memory(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import ctypes, errno, json, os
        libc = ctypes.CDLL(None, use_errno=True)
        refused = {}
        for name, make in (("memfd_create", lambda: os.memfd_create("x")),):
            try:
                make()
                refused[name] = "made"
            except OSError as problem:
                refused[name] = errno.errorcode[problem.errno]
        # memfd_secret has one number everywhere.
        refused["memfd_secret"] = [libc.syscall(447, 0), errno.errorcode[ctypes.get_errno()]]
        block, held = b"x" * 1024 * 1024, 0
        for place in ("/tmp", "/dev/shm", "/workspace"):
            for make in (lambda: os.open(place, os.O_TMPFILE | os.O_RDWR),
                         lambda: os.open(f"{place}/gone", os.O_CREAT | os.O_RDWR)):
                try:
                    number = make()
                    if os.path.exists(f"{place}/gone"):
                        os.unlink(f"{place}/gone")
                    while True:
                        held += os.write(number, block)
                except OSError:
                    pass
        print(json.dumps([refused, held // len(block)]))
        """,
        workspace_mb=16, tmp_mb=16, shm_mb=8,
    )  # fmt: skip
    refused, held = told
    assert refused == {"memfd_create": "ENOSYS", "memfd_secret": [-1, "ENOSYS"]}
    assert held <= 16 + 16 + 8


def test_no_memory_or_queue_of_system_v_or_posix_is_made(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import ctypes, errno, json, os
        libc = ctypes.CDLL(None, use_errno=True)
        calls = {
            "shmget": lambda: libc.shmget(0, 1 << 26, 0o1600),
            "shmget with a key": lambda: libc.shmget(4711, 4096, 0o1600),
            "semget": lambda: libc.semget(0, 250, 0o1600),
            "msgget": lambda: libc.msgget(0, 0o1600),
            "mq_open": lambda: libc.mq_open(b"/queue", 0o102, 0o600, None),
        }
        made = {}
        for name, call in calls.items():
            ctypes.set_errno(0)
            made[name] = [call(), errno.errorcode.get(ctypes.get_errno())]
        print(json.dumps([made, os.path.exists("/dev/mqueue"), sorted(os.listdir("/dev/shm"))]))
        """
    )
    made, queues, shared = told
    assert all(one == [-1, "EPERM"] for one in made.values()), made
    assert not queues
    assert shared == []


def test_pipes_hold_little(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import fcntl, os
        held = 0
        for _ in range(120):
            try:
                reader, writer = os.pipe()
                os.set_blocking(writer, False)
                fcntl.fcntl(writer, 1031, 1024 * 1024)
            except OSError:
                pass
            try:
                while True:
                    held += os.write(writer, b"x" * 65536)
            except OSError:
                pass
        print(held)
        """
    )
    assert result.reason in ("ok", "memory_limit"), result
    if result.reason == "ok":
        assert int(result.stdout) <= 96 * 1024 * 1024
    assert daemon.quiet()


def test_many_small_handles_of_the_kernel_run_out(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import ctypes, json, os, select
        libc = ctypes.CDLL(None, use_errno=True)
        counts = {}
        for name, make in (
            ("eventfd", lambda: libc.eventfd(0, 0)),
            ("timerfd", lambda: libc.timerfd_create(1, 0)),
            ("epoll", lambda: libc.epoll_create1(0)),
            ("signalfd", lambda: libc.signalfd(-1, bytes(128), 0)),
            ("pidfd", lambda: os.pidfd_open(os.getpid())),
        ):
            held = []
            try:
                while len(held) < 5000:
                    number = make()
                    if number < 0:
                        break
                    held.append(number)
            except OSError:
                pass
            counts[name] = len(held)
            for number in held:
                os.close(number)
        print(json.dumps(counts))
        """,
        open_files=128,
    )
    assert all(count < 128 for count in told.values()), told


def test_output_stays_bytes_and_is_shown_harmless(daemon: Daemon) -> None:
    from apps.sandbox.runner import call_python_tool

    raw = b"\xff\xfe\x00\x1b[2J\x1b]0;title\x07\r\n\xc3"
    result = daemon.python(f"import os; os.write(1, {raw!r})")
    assert result.stdout == raw
    reply = call_python_tool(
        tree={
            "tool.py": f"import os\ndef run(a):\n    os.write(1, {raw!r})\n    return 1\n".encode()
        },
        entry="tool:run",
        arguments={},
        deadline_s=30,
        path=daemon.socket,
    )
    assert reply.ok
    assert "\x1b" not in reply.stdout
    assert "\x00" not in reply.stdout
    assert json.loads(json.dumps(reply.stdout)) == reply.stdout


def test_a_crash_leaves_no_core(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import json, os, signal
        ended = []
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT):
            child = os.fork()
            if child == 0:
                os.kill(os.getpid(), number)
            ended.append(os.WTERMSIG(os.waitpid(child, 0)[1]) == number)
        print(json.dumps([ended, os.listdir("/workspace"), os.listdir("/tmp")]))
        """
    )
    assert told == [[True] * 3, [], []]


def test_signals_that_the_supervisor_was_born_without_end_programs_all_the_same(
    another_daemon: Callable[..., Daemon],
) -> None:
    """A shell's background job ignores some signals, and so would all that it starts."""
    ignored = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
    try:
        daemon = another_daemon()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    told = daemon.told(
        """
        import json, signal
        print(json.dumps([one.name for one in signal.valid_signals()
                          if signal.getsignal(one) == signal.SIG_IGN]))
        """
    )
    assert set(told) == {"SIGPIPE", "SIGXFSZ"}  # which Python itself ignores


def test_a_program_cannot_make_itself_the_last_to_die(daemon: Daemon) -> None:
    """It may have the supervisor's own score, and no lower one."""
    told = daemon.told(
        """
        import json
        before = int(open("/proc/self/oom_score_adj").read())
        for score in ("-1000", str(before - 1)):
            for pid in ("self", "1"):
                try:
                    with open(f"/proc/{pid}/oom_score_adj", "w") as file:
                        file.write(score)
                except OSError:
                    pass
        print(json.dumps([before, int(open("/proc/self/oom_score_adj").read())]))
        """
    )
    before, after = told
    assert after >= before


def test_many_folders_and_links_count_as_files(daemon: Daemon) -> None:
    for make in ("os.mkdir(name)", "os.symlink('x', name)", "os.mkfifo(name)",
                 "os.mknod(name, 0o100600)"):  # fmt: skip
        result = daemon.python(
            f"""
            import os, time
            for number in range(3000):
                name = f"/dev/shm/{{number}}"
                {make}
            time.sleep(60)
            """,
            limits=Limits(max_files=1000, wall_ms=20_000),
        )
        assert result.reason == "too_many_files", make
