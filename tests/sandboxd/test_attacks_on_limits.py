"""A program may use only what it was given, however it tries to get more."""

import time

import pytest

from apps.sandbox.spec import Limits
from tests.sandboxd.daemon import Daemon

pytestmark = pytest.mark.sandbox


def test_a_fork_bomb_stops_at_the_process_limit(daemon: Daemon) -> None:
    made = daemon.told(
        """
        import os, time
        made = 0
        for _ in range(500):
            try:
                pid = os.fork()
            except BlockingIOError:
                break
            if pid == 0:
                time.sleep(60)
            made += 1
        print(made)
        """,
        processes=64,
    )
    assert 50 <= made <= 64
    assert daemon.quiet()


def test_a_thread_bomb_stops(daemon: Daemon) -> None:
    made = daemon.told(
        """
        import os, sys, threading, time
        made = 0
        for _ in range(500):
            try:
                threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
            except RuntimeError:
                break
            made += 1
        print(made, flush=True)
        os._exit(0)
        """
    )
    assert made <= 64


def test_hundreds_of_processes_in_sessions_of_their_own_die_at_the_deadline(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import os, time
        for _ in range(500):
            try:
                if os.fork() == 0:
                    os.setsid()
                    os.execv("/bin/sleep", ["sleep", "300"])
            except BlockingIOError:
                time.sleep(0.01)
        time.sleep(60)
        """,
        wall_ms=2000,
    )
    assert result.reason == "wall_timeout"
    assert daemon.quiet()


def test_orphans_that_ignore_signals_die_with_their_sandbox(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import os, signal, time
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        for _ in range(5):
            if os.fork():
                os._exit(0)
            os.setsid()
        time.sleep(300)
        """
    )
    assert result.reason == "ok"
    assert daemon.quiet()


def test_a_child_that_keeps_the_output_open_holds_nobody_up(daemon: Daemon) -> None:
    started = time.monotonic()
    result = daemon.python(
        """
        import os, time
        if os.fork() == 0:
            time.sleep(300)
        print("done", flush=True)
        """
    )
    assert result.stdout == b"done\n"
    assert time.monotonic() - started < 15
    assert daemon.quiet()


def test_one_process_cannot_hoard_memory(daemon: Daemon) -> None:
    result = daemon.python(
        """
        held = []
        try:
            while True:
                held.append(bytearray(8 * 1024 * 1024))
        except MemoryError:
            held.clear()
            print("MemoryError")
        """,
        memory_mb=128,
    )
    assert result.reason == "memory_limit" or result.stdout == b"MemoryError\n"
    assert result.stats.max_rss_kib < 200 * 1024


def test_many_processes_cannot_hoard_memory_together(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import os, time
        for _ in range(20):
            if os.fork() == 0:
                held = bytearray(32 * 1024 * 1024)
                time.sleep(60)
        time.sleep(60)
        """,
        memory_mb=256,
    )
    assert result.reason == "memory_limit"
    assert daemon.quiet()


def test_shared_memory_counts(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import mmap, os, time
        for _ in range(6):
            if os.fork() == 0:
                held = mmap.mmap(-1, 64 * 1024 * 1024)
                for at in range(0, len(held), 4096):
                    held[at] = 1
                time.sleep(60)
        time.sleep(60)
        """,
        memory_mb=128,
    )
    assert result.reason == "memory_limit"


def test_a_disk_file_cannot_grow_past_the_workspace(daemon: Daemon) -> None:
    written = daemon.told(
        """
        import errno, json, os
        total = 0
        block = b"x" * 1024 * 1024
        names = []
        for place in ("/workspace/a", "/workspace/b"):
            with open(place, "wb", buffering=0) as file:
                try:
                    while True:
                        total += file.write(block)
                except OSError as problem:
                    names.append(errno.errorcode[problem.errno])
        print(json.dumps([total, names]))
        """,
        workspace_mb=16,
        memory_mb=256,
    )
    assert written[0] <= 16 * 1024 * 1024
    assert set(written[1]) <= {"ENOSPC", "EFBIG"}


def test_no_other_place_takes_more_than_its_size(daemon: Daemon) -> None:
    taken = daemon.told(
        """
        import json, os
        block = b"x" * 1024 * 1024
        taken = {}
        for folder in ("/", "/dev", "/etc", "/proc", "/usr", "/package", "/kaizen", "/runtime",
                       "/dev/shm", "/tmp"):
            taken[folder] = 0
            for name in ("a", "b", "c"):
                try:
                    with open(f"{folder}/{name}", "wb", buffering=0) as file:
                        while True:
                            taken[folder] += file.write(block)
                except OSError:
                    pass
        print(json.dumps(taken))
        """,
        workspace_mb=16,
        tmp_mb=16,
        shm_mb=8,
    )
    assert taken.pop("/dev/shm") <= 8 * 1024 * 1024
    assert taken.pop("/tmp") <= 16 * 1024 * 1024
    assert set(taken.values()) == {0}


def test_too_many_files_end_the_call(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import os, time
        for number in range(3000):
            os.close(os.open(f"/tmp/{number}", os.O_CREAT))
        time.sleep(60)
        """,
        limits=Limits(max_files=1000, wall_ms=20_000),
    )
    assert result.reason == "too_many_files"


def test_descriptors_run_out(daemon: Daemon) -> None:
    opened = daemon.told(
        """
        import os
        opened = 0
        try:
            while True:
                os.open("/dev/null", os.O_RDONLY)
                opened += 1
        except OSError:
            print(opened)
        """,
        open_files=64,
    )
    assert opened < 64


def test_spinning_with_every_signal_ignored_ends_at_the_cpu_limit(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import signal
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        while True:
            pass
        """,
        cpu_ms=500,
    )
    assert result.reason == "cpu_limit"
    assert result.stats.cpu_ms >= 400


def test_cpu_time_of_dead_children_counts(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import os, time
        while True:
            if os.fork() == 0:
                until = time.process_time() + 0.15
                while time.process_time() < until:
                    pass
                os._exit(0)
            os.wait()
        """,
        cpu_ms=800,
    )
    assert result.reason == "cpu_limit"


def test_sleeping_past_the_deadline_ends_there(daemon: Daemon) -> None:
    result = daemon.run("sleep", "60", limits=Limits(wall_ms=500))
    assert result.reason == "wall_timeout"
    assert result.exit_code is None
    assert 500 <= result.stats.wall_ms < 5000


def test_endless_output_ends_the_call_and_little_of_it_is_kept(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import os
        block = b"x" * 65536
        for _ in range(200 * 16):
            os.write(1, block)
        """,
        output_read_mb=16,
        stdout_keep_kib=64,
    )
    assert result.reason == "output_limit"
    assert len(result.stdout) <= 65 * 1024
    assert b"bytes left out" in result.stdout
    assert result.stats.stdout_bytes <= 17 * 1024 * 1024


def test_slow_endless_output_ends_at_the_deadline(daemon: Daemon) -> None:
    result = daemon.run(
        "sh", "-c", "while :; do echo x; sleep 0.05; done", limits=Limits(wall_ms=700)
    )
    assert result.reason == "wall_timeout"
    assert result.stdout.startswith(b"x\nx\n")


def test_a_flood_on_the_result_channel_ends_the_call(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import socket
        channel = socket.socket(fileno=3)
        while True:
            channel.sendall(b"x" * 65536)
        """,
        result_kib=256,
    )
    assert result.reason == "output_limit"
    assert len(result.result) <= 256 * 1024


def test_limits_cannot_be_raised_from_inside(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import json, os, resource
        names = ("DATA", "FSIZE", "NOFILE", "CPU", "NPROC", "CORE", "MEMLOCK", "MSGQUEUE")
        limits, raised = {}, []
        for name in names:
            kind = getattr(resource, "RLIMIT_" + name)
            limits[name] = resource.getrlimit(kind)
            try:
                resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                raised.append(name)
            except (OSError, ValueError):
                pass
        try:
            os.nice(-5)
            raised.append("nice")
        except OSError:
            pass
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
            raised.append("real time")
        except OSError:
            pass
        print(json.dumps([limits, raised]))
        """,
        memory_mb=200,
        open_files=100,
        processes=10,
        cpu_ms=3000,
    )
    limits, raised = told
    assert raised == []
    assert limits["DATA"] == [200 * 1024 * 1024] * 2
    assert limits["NOFILE"] == [100, 100]
    assert limits["NPROC"] == [11, 11]
    assert limits["CPU"] == [4, 4]
    # Nothing of a crash reaches a disk or a handler of the host.
    assert limits["CORE"][1] <= 1


def test_a_sparse_giant_is_refused(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with open("/workspace/giant", "wb") as file:
            try:
                file.truncate(1 << 40)
            except OSError as problem:
                print(problem.errno)
        """,
        outputs=("giant",),
    )
    assert result.stdout.strip() == b"27"
    assert result.outputs[0].content == b""


def test_memory_cannot_be_hidden_in_sockets(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import os, socket, time
        for _ in range(30):
            if os.fork() == 0:
                held = []
                try:
                    while True:
                        pair = socket.socketpair()
                        held.append(pair)
                        pair[0].setblocking(False)
                        try:
                            while True:
                                pair[0].send(b"x" * 65536)
                        except BlockingIOError:
                            pass
                except OSError:
                    time.sleep(60)
        time.sleep(60)
        """,
        memory_mb=128,
    )
    assert result.reason == "memory_limit"
    assert daemon.quiet()


def test_no_socket_is_given_larger_buffers(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import json, socket
        told = {}
        for family, kind in ((1, 1), (1, 2), (2, 1), (2, 2)):
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF, 32, 33):
                with socket.socket(family, kind) as one:
                    read = {32: socket.SO_SNDBUF, 33: socket.SO_RCVBUF}.get(option, option)
                    before = one.getsockopt(socket.SOL_SOCKET, read)
                    one.setsockopt(socket.SOL_SOCKET, option, 1 << 30)
                    after = one.getsockopt(socket.SOL_SOCKET, read)
                    if after != before:
                        told[f"{family} {kind} {option}"] = [before, after]
        print(json.dumps(told))
        """
    )
    assert told == {}


def test_memory_cannot_be_hidden_in_connections_that_grow(daemon: Daemon) -> None:
    result = daemon.python(
        """
        import socket, time
        held, door = [], socket.socket()
        door.bind(("127.0.0.1", 0))
        door.listen(200)
        for _ in range(110):
            one = socket.create_connection(door.getsockname())
            held += [one, door.accept()[0]]
            one.setblocking(False)
            try:
                while True:
                    one.send(b"x" * 65536)
            except BlockingIOError:
                pass
        time.sleep(60)
        """,
        memory_mb=64,
    )
    assert result.reason == "memory_limit"
    assert daemon.quiet()
