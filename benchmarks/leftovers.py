"""What is left of calls that were killed in the middle? Processes, mounts, groups, folders, memory.

Five hundred calls with children in sessions of their own are ended at random moments, from before
their launch to after their end: their client is killed, hangs up, cancels, sets a deadline, or the
supervisor itself is killed. Afterwards everything is counted. Finally the same is done to a build
that cleans nothing up, where the count has to find it.

    python -m benchmarks.leftovers [--quick]
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

from django.conf import settings

from apps.domain.wire import encode
from apps.sandbox.client import connection, run
from apps.sandbox.errors import SandboxUnavailable
from apps.sandbox.spec import Limits, Reason, SandboxSpec
from apps.sandboxd.job_wire import encode_job
from benchmarks.harness import BenchmarkFailed, Report, main, say
from benchmarks.sandboxes import Remains, Supervisor, as_root

SEED = 20_261_130
_LONGEST_S = 0.4
_SETTLE_S = 20.0
_AT_ONCE = 5

# Keeps files, shared memory, memory, and children that left its session and ignore signals.
_PROGRAM = """
import mmap, os, signal, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
held = mmap.mmap(-1, 4 << 20)
held[:] = b"x" * len(held)
for place in ("/workspace", "/tmp", "/dev/shm"):
    open(f"{place}/file", "wb").write(b"x" * (1 << 20))
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv("/bin/sleep", ["sleep", "60"])
        time.sleep(60)
time.sleep(60)
"""

# What a call leaves is left: its group stays, and its memory files are never closed.
_CARELESS = (
    "-c",
    "import sys; from apps.sandboxd import __main__, cgroups, layout;"
    " cgroups.CallGroup.remove = lambda self: None;"
    " layout.Descriptors.close = lambda self: None;"
    " sys.exit(__main__.main())",
)


def _spec(mark: str) -> SandboxSpec:
    return SandboxSpec(
        argv=("python", "-I", "-S", "-c", _PROGRAM),
        files=(("data.txt", b"x" * 4096),),
        correlation_id=mark,
        limits=Limits(wall_ms=30_000),
    )


class Killing:
    """The ways to end a call at a random moment."""

    def __init__(self, supervisor: Supervisor, mark: str) -> None:
        self.supervisor = supervisor
        self.random = random.Random(SEED)
        self.spec = _spec(mark)
        self.ended: Counter[str] = Counter()

    def _moment(self) -> float:
        return self.random.uniform(0.0, _LONGEST_S)

    def client_killed(self) -> None:
        """Kill the process that asked."""
        moment = self._moment()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(SandboxUnavailable):
                run(self.spec, deadline_s=30, path=self.supervisor.socket)
            os._exit(0)
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self.ended["client killed"] += 1

    def hung_up(self) -> None:
        """Close the connection, now and then with half of the job sent."""
        with connection(self.supervisor.socket) as link:
            job = encode(encode_job(self.spec, deadline_ms=30_000))
            link.sendall(job if self.random.random() < 0.8 else job[: len(job) // 2])
            time.sleep(self._moment())
        self.ended["hung up"] += 1

    def cancelled(self) -> None:
        """Say that the call is no longer wanted."""
        until = time.monotonic() + self._moment()
        result = run(
            self.spec,
            deadline_s=30,
            cancelled=lambda: time.monotonic() > until,
            path=self.supervisor.socket,
        )
        self.ended[f"cancelled: {result.reason}"] += 1
        if result.reason is not Reason.CANCELLED:
            raise BenchmarkFailed(f"A cancelled call ended with {result.reason}.")

    def deadline(self) -> None:
        """Let the call run into its deadline."""
        try:
            reason: str = run(
                self.spec, deadline_s=max(0.02, self._moment()), path=self.supervisor.socket
            ).reason
        except SandboxUnavailable:
            reason = "not started"
        self.ended[f"deadline: {reason}"] += 1

    def supervisor_killed(self, calls: int) -> None:
        """Kill the supervisor under several calls at once, and start it again."""

        def ask() -> None:
            with contextlib.suppress(SandboxUnavailable):
                run(self.spec, deadline_s=30, path=self.supervisor.socket)

        asking = [threading.Thread(target=ask) for _ in range(calls)]
        for one in asking:
            one.start()
        time.sleep(self._moment())
        self.supervisor.kill()
        for one in asking:
            one.join()
        self.supervisor.start()
        self.ended["supervisor killed"] += calls


def measure(quick: bool) -> Report:
    """End calls in every way and count what they left; then where nothing is cleaned up."""
    each = 10 if quick else 100
    settings.configure()
    mark = f"left-{secrets.token_hex(8)}"
    with Supervisor() as supervisor:
        killing = Killing(supervisor, mark)
        began = time.monotonic()
        ways: tuple[Callable[[], None], ...] = (
            killing.client_killed, killing.hung_up, killing.cancelled, killing.deadline,
        )  # fmt: skip
        for number in range(each):
            for way in ways:
                way()
            if number % _AT_ONCE == _AT_ONCE - 1:
                killing.supervisor_killed(_AT_ONCE)
        remains = _settled(supervisor, mark)
        took = time.monotonic() - began
    for way_name, count in sorted(killing.ended.items()):
        say(f"{count:5}  {way_name}")
    say(f"Left of {killing.ended.total()} calls after {took:.0f} s: {remains}")

    careless_mark = f"left-{secrets.token_hex(8)}"
    with Supervisor(*_CARELESS) as careless:
        killing_there = Killing(careless, careless_mark)
        for _ in range(5):
            killing_there.cancelled()
        found = _settled(careless, careless_mark, patience=1.0)
        for group in careless.groups():
            group.rmdir()
    say(f"Left of 5 calls where nothing is cleaned up: {found}")
    figures: dict[str, float | int] = {
        "calls": killing.ended.total(),
        "processes": remains.processes,
        "mounts": remains.mounts,
        "cgroups": remains.groups,
        "folders": remains.folders,
        "memory_files": remains.memory_files,
        "as_root": int(as_root()),
        "found_when_broken": found.total,
        "seconds": round(took, 1),
    }
    return Report(figures, ok=not remains.total and found.total > 0)


def _settled(supervisor: Supervisor, mark: str, patience: float = _SETTLE_S) -> Remains:
    """Count once everything that is about to end has ended."""
    until = time.monotonic() + patience
    while (remains := supervisor.remains(mark)).total and time.monotonic() < until:
        time.sleep(0.2)
    return remains


if __name__ == "__main__":
    sys.exit(main("leftovers", measure))
