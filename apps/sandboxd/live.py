"""Hold the handles of one living sandbox until all of it is dead."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from apps.sandboxd.cgroups import CallGroup
from apps.sandboxd.egress import Egress
from apps.sandboxd.workfiles import WorkFile
from apps.sandboxd.workspace import stage

DEATH_SECONDS: Final = 10.0


class NotDead(RuntimeError):
    """A sandbox outlived its kill; its user id is not used again."""


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU and memory of the dead processes, as the kernel accounted for them."""

    cpu_ms: int
    max_rss_kib: int


@dataclass(slots=True)
class LiveSandbox:
    """A sandbox whose mounts stand; its program starts with `open_gate`."""

    process: subprocess.Popen[bytes]
    outer_fd: int
    init_pid: int
    init_fd: int
    stdin: int
    stdout: int
    stderr: int
    result: socket.socket
    group: CallGroup | None
    uid: int | None
    give_back: Callable[[], None]
    proc: int = -1
    workspace: int = -1
    writable: list[int] = field(default_factory=list)
    terminals: int = -1
    dead: bool = False
    egress: Egress | None = None

    def open_gate(self) -> None:
        """Let a program run that does not wait for more than that."""
        os.write(self.stdin, b"\n")

    def stage(self, files: Sequence[WorkFile]) -> None:
        """Put files into the workspace before the program begins, or raise BadWorkFiles."""
        stage(self.workspace, files, uid=self.uid)

    def is_waiting(self) -> bool:
        """Tell whether its program lives and has said nothing since it was ready."""
        heard = (self.outer_fd, self.init_fd, self.stdout, self.stderr, self.result.fileno())
        return not any(is_ready(number, 0) for number in heard)

    def end(self) -> None:
        """Kill all of it and let go of every handle; raise NotDead where that cannot be."""
        try:
            self.kill()
            self.reap()
        finally:
            self.close()

    def kill(self) -> None:
        """Kill the first process of the namespace; the kernel kills all the others.

        Bubblewrap's outer half goes first, so that the first process is handed to us and its
        accounting is not lost.
        """
        for number in (self.outer_fd, self.init_fd):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(number, signal.SIGKILL)

    def reap(self) -> tuple[int, Spent]:
        """Wait until nothing of the sandbox lives; return its exit code and what it spent."""
        until = time.monotonic() + DEATH_SECONDS
        if not is_ready(self.init_fd, until):
            raise NotDead("A sandbox did not die.")
        self.dead = True
        if not is_ready(self.outer_fd, time.monotonic() + 2):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.outer_fd, signal.SIGKILL)
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = code = os.waitstatus_to_exitcode(status)
        try:
            inner = os.wait4(self.init_pid, 0)[2]
        except ChildProcessError:
            # Bubblewrap reaped it; its own peak still holds the moment when it was our fork.
            return code, Spent(int((used.ru_utime + used.ru_stime) * 1000), 0)
        return code, Spent(int((inner.ru_utime + inner.ru_stime) * 1000), inner.ru_maxrss)

    def close(self) -> None:
        """Let go of every handle; what a survivor might still use is not given back."""
        if self.egress is not None:
            self.egress.close()
        close_all(self.stdin, self.stdout, self.stderr, self.outer_fd, self.init_fd, self.proc)
        close_all(*self.writable, self.terminals)
        self.result.close()
        if self.dead:
            if self.group is not None:
                self.group.remove()
            self.give_back()


def close_all(*numbers: int) -> None:
    """Close descriptors, and pass over those that were never opened."""
    for number in numbers:
        if number >= 0:
            with suppress(OSError):
                os.close(number)


def is_ready(number: int, until: float) -> bool:
    """Wait until a descriptor is readable; a process descriptor is once its process is dead."""
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(max(0, int((until - time.monotonic()) * 1000))))
