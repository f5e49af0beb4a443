"""The parts of the supervisor that need no sandbox to be proved."""

import logging
import os
import struct
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.sandboxd import cgroups
from apps.sandboxd.driver import Driver
from apps.sandboxd.exchange import Asker, Exchange
from apps.sandboxd.job_wire import decode_job, decode_result, encode_job, encode_result
from apps.sandboxd.jobs import Output, Reason, SandboxResult, SandboxSpec, Stats
from apps.sandboxd.keeper import Keeper, KeeperRefuses
from apps.sandboxd.kernels import Kernel
from apps.sandboxd.layout import GATE, Descriptors, Layout, Runtime, arguments
from apps.sandboxd.limits import CEILINGS, BadLimit, Clamp, Limits, clamp, read_limits
from apps.sandboxd.livefiles import LiveFiles
from apps.sandboxd.probe import ProbeReport, ProbeStatus, decode_probe, encode_probe, explain, judge
from apps.sandboxd.server import Slots
from apps.sandboxd.supervise import Kept
from apps.sandboxd.uids import NoFreeUid, UidPool, UidRange, read_uid_range
from apps.sandboxd.workfiles import BadWorkFiles, WorkFile, known_of


def test_a_job_survives_the_wire() -> None:
    spec = SandboxSpec(
        argv=("python", "x"),
        files=(("a/b", b"one"), ("c", b"")),
        harness=(("h.py", b"\x00\xff"),),
        stdin=b"in",
        env=(("NAME", "wert"),),
        outputs=("out",),
        limits=Limits(memory_mb=77),
        correlation_id="id-1",
    )
    assert decode_job(encode_job(spec, deadline_ms=5)) == (spec, 5)


def test_a_result_survives_the_wire() -> None:
    result = SandboxResult(
        Reason.EXIT, 3, b"out", b"err", b"res",
        outputs=(Output("a", b"x"), Output("b", refused="link")),
        stats=Stats(1, 2, 3, 4, 5), clamped=(Clamp("files", 9, 8),), detail="d", python="3",
    )  # fmt: skip
    assert decode_result(encode_result(result)) == result
    assert decode_result(encode_result(replace(result, exit_code=None))).exit_code is None


def test_a_report_survives_the_wire() -> None:
    report = ProbeReport(ProbeStatus.READY, "s", ("a",), ("b",), "3.12")
    assert decode_probe(encode_probe(report)) == report


@given(st.binary(max_size=300), st.integers(2, 64), st.integers(1, 40))
def test_kept_output_is_bounded_and_exact_where_it_fits(data: bytes, most: int, piece: int) -> None:
    kept = Kept(most)
    for at in range(0, len(data), piece):
        kept.add(data[at : at + piece])
    assert kept.total == len(data)
    content = kept.content()
    if len(data) <= most:
        assert content == data
    else:
        half = most // 2
        assert content.startswith(data[:half])
        assert content.endswith(data[-(most - half) :])
        assert b"%d bytes left out" % (len(data) - most) in content


def test_limits_are_numbers_above_zero() -> None:
    for bad in (0, -1, True, 1.5, "7", None):
        with pytest.raises(BadLimit):
            read_limits({"memory_mb": bad})
    with pytest.raises(BadLimit):
        read_limits({"unknown": 1})
    with pytest.raises(BadLimit):
        Limits(wall_ms=0)


@given(st.integers(1, 10**9))
def test_no_wish_passes_its_ceiling(asked: int) -> None:
    granted, changed = clamp(Limits(memory_mb=asked))
    assert granted.memory_mb <= CEILINGS.memory_mb
    assert bool(changed) is (granted.memory_mb != asked)


def test_a_ceiling_below_our_floor_wins() -> None:
    granted, _ = clamp(Limits(), Limits(memory_mb=16))
    assert granted.memory_mb == 16


def test_python_limits_take_what_the_definition_asks() -> None:
    assert Limits.for_python() == Limits()
    assert Limits.for_python(memory_mb=99, cpu_ms=5) == Limits(memory_mb=99, cpu_ms=5)


def test_user_ids_are_lent_once_and_the_longest_unused_first() -> None:
    pool = UidPool(UidRange(70_000, 3))
    first, second = pool.borrow(), pool.borrow()
    pool.give_back(first)
    assert pool.borrow() == 70_002
    assert (second, pool.borrow()) == (70_001, first)
    with pytest.raises(NoFreeUid):
        pool.borrow()


@pytest.mark.parametrize("text", ["", "5", "a:b", "0:5", "5:0", "-1:5", "5:5:5"])
def test_a_bad_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"range|START"):
        read_uid_range(text)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("bwrap: Creating new namespace failed: No space left on device", "no_user_namespaces"),
        ("bwrap: No permissions to create new namespace, likely because ...", "blocked"),
        ("bwrap: setting up uid map: Permission denied", "blocked"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "proc_masked"),
        ("bwrap: execvp /usr/bin/prlimit: No such file or directory", "no_prlimit"),
        ("something new", "failed"),
    ],
)
def test_what_bubblewrap_says_becomes_a_closed_word(said: str, status: str) -> None:
    assert explain(said) == status


def test_a_look_from_inside_must_be_complete() -> None:
    assert not judge(b"nonsense").readable
    assert not judge(b"[]").readable
    assert set(judge(b"{}").broken) >= {"uid", "capabilities", "seccomp", "descriptors"}


def test_places_of_ours_under_usr_are_covered(tmp_path: Path) -> None:
    memory = Descriptors()
    try:
        layout = Layout(Runtime(Path("/usr/bin/python3")), hidden=(Path("/usr/lib"), tmp_path))
        options = arguments(layout, SandboxSpec(argv=("true",)), Limits(), memory)
    finally:
        memory.close()
    covered = [options[n + 1] for n, one in enumerate(options) if one == "--tmpfs"]
    assert "/usr/lib" in covered
    assert str(tmp_path) not in covered
    # A Python below /usr needs no bind of its own.
    assert "/runtime/python" not in options
    assert options[options.index("/runtime/bin/python") - 1] == "/usr/bin/python3"


def test_slots_are_given_in_order_and_never_above_the_bound() -> None:
    slots = Slots(running=1, waiting=5)
    order: list[int] = []
    assert slots.take(time.monotonic() + 5, lambda: False)

    def wait(number: int) -> None:
        assert slots.take(time.monotonic() + 10, lambda: False)
        order.append(number)
        slots.give_back()

    threads = []
    for number in range(4):
        threads.append(threading.Thread(target=wait, args=(number,)))
        threads[-1].start()
        while len(slots._queue) <= number:
            time.sleep(0.001)
    slots.give_back()
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3]
    assert slots.running == 1


def test_whoever_gives_up_leaves_the_queue() -> None:
    slots = Slots(running=0, waiting=1)
    assert slots.take(time.monotonic() + 5, lambda: True) is False
    assert slots.take(time.monotonic() + 0.1, lambda: False) is False


MOUNTS = """\
25 1 8:1 / / rw - ext4 /dev/sda1 rw
30 25 0:26 / /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory
31 25 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
32 25 0:28 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
OWN = "9:pids:/user\n8:cpu,cpuacct:/docker/abc/x\n4:memory:/user/me\n0::/user/slice\n"


@pytest.mark.parametrize(
    ("controller", "expected"),
    [
        ("memory", "/sys/fs/cgroup/memory/user/me"),
        ("pids", "/sys/fs/cgroup/pids/user"),
        ("cpuacct", "/sys/fs/cgroup/cpu,cpuacct/x"),
        ("blkio", None),
    ],
)
def test_our_group_is_found_in_the_first_version(controller: str, expected: str | None) -> None:
    found = cgroups._v1_base(MOUNTS, OWN, controller)
    assert found == (Path(expected) if expected else None)


def test_a_second_version_tree_holds_the_limits(tmp_path: Path) -> None:
    base = tmp_path / "tree"
    base.mkdir()
    tree = cgroups.GroupTree(2, dict.fromkeys(("cpu", "memory", "pids"), base), own=base)
    group = tree.make("call-1", Limits(memory_mb=64, processes=5))
    folder = base / "call-1"
    assert (folder / "memory.max").read_text() == str(64 * 1024 * 1024)
    assert (folder / "pids.max").read_text() == "6"
    assert (folder / "cpu.max").read_text() == "100000 100000"
    assert not group.out_of_memory()
    (folder / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (folder / "cpu.stat").write_text("usage_usec 5000\nuser_usec 1\n")
    assert group.out_of_memory()
    assert group.cpu_ms() == 5
    group.attach(7)
    assert (folder / "cgroup.procs").read_text() == "7"


def test_a_move_is_prepared_by_moving_the_supervisor_to_where_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (own := tmp_path / "own").mkdir()
    cgroups.GroupTree(2, {"memory": tmp_path / "tree"}, own=own).hasten()
    cgroups._aside.submit(bool).result(10)
    assert (own / "cgroup.procs").read_text() == str(os.getpid())
    # Where that fails, only time is lost.
    with caplog.at_level(logging.INFO):
        cgroups.GroupTree(2, {}, own=tmp_path / "gone").hasten()
        cgroups._aside.submit(bool).result(10)
    assert "No move was prepared" in caplog.text


def test_nothing_of_the_frame_is_guessed() -> None:
    # The mark, then two lengths: changing this breaks running supervisors on upgrade.
    from apps.domain.wire import Message, encode

    data = encode(Message("a", {"b": 1}, b"body"))
    assert data[:4] == b"KZ\x01\n"
    assert struct.unpack(">II", data[4:12]) == (len(data) - 16, 4)


def test_a_request_that_its_kernel_never_began_is_lost_and_not_cancelled() -> None:
    class Ended:
        def submit(self, exchange: Exchange) -> None:
            exchange.result = SandboxResult(Reason.CANCELLED)
            exchange.kernel_ended = True
            exchange.finished.set()

    keeper = Keeper(cast(Driver, None), CEILINGS)
    exchange = Exchange(asker=cast(Asker, None), line=b"{}\n", deadline=0.0)
    with pytest.raises(KeeperRefuses) as refused:
        keeper.carry_out(cast(Kernel, Ended()), exchange)
    assert refused.value.code == "kernel_lost"


def test_files_that_were_put_in_only_in_part_are_made_whole_by_the_next_cell(
    tmp_path: Path,
) -> None:
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    files = LiveFiles(folder)
    before = {name: WorkFile(name, b"before") for name in ("kept.txt", "other.txt")}
    after = {name: WorkFile(name, b"after") for name in ("kept.txt", "stuck.txt")}
    files.put(known_of([*before.values()]), [*before.values()])
    (tmp_path / "stuck.txt" / "full").mkdir(parents=True)
    with pytest.raises(BadWorkFiles):
        files.put(known_of([*after.values()]), [*after.values()])
    wanted = known_of([*before.values()])
    files.put(wanted, [before[name] for name in files.needed(wanted)])
    changes = files.take()
    files.close()
    os.close(folder)
    assert (tmp_path / "kept.txt").read_bytes() == b"before"
    assert (changes.changed, changes.removed) == ((), ())


def test_the_gate_starts_nothing_once_its_supervisor_is_gone() -> None:
    def through(said: bytes) -> tuple[bytes, int]:
        ended = subprocess.run([*GATE, "echo", "runs"], input=said, stdout=subprocess.PIPE)
        return ended.stdout, ended.returncode

    assert through(b"\n") == (b".runs\n", 0)
    assert through(b"") == (b".", 125)
