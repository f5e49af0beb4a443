"""Measure what a running sandbox uses, and see when it has used too much.

The numbers come from the sandbox's own /proc, opened before its program ran: it lists exactly the
processes of that sandbox, so nothing has to be searched for on the host.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from apps.sandboxd.cgroups import CallGroup
from apps.sandboxd.jobs import Reason
from apps.sandboxd.limits import MIB, Limits

INTERVAL = 0.05

_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
# A connected socket may hold this much unread data in the kernel, where no process is charged.
_SOCKET_BYTES = 208 * 1024
_FREE_SOCKETS = 32
_SOCKETS = re.compile(rb"sockets: used (\d+)")
# How many this sandbox has, and how many pages those of the whole machine hold.
_STREAMS = re.compile(rb"^TCP: inuse (\d+) .* mem (\d+)", re.MULTILINE)
_PAGE = os.sysconf("SC_PAGESIZE")
# Below this, nobody's connections hold enough to look for whose they are, which is expensive.
_MUCH_IN_STREAMS = 16 * MIB
_QUEUES = re.compile(rb"^ *\d+: \S+ \S+ \S+ ([0-9A-F]{8}):([0-9A-F]{8}) ", re.MULTILINE)
_HELD = re.compile(rb"^(RssAnon|RssShmem|VmPTE):\s+(\d+) kB", re.MULTILINE)
_PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Places:
    """Descriptors of the sandbox's /proc and of its writable file systems."""

    proc: int
    writable: tuple[int, ...]


class Watch:
    """Sample one sandbox and remember the peaks."""

    def __init__(self, places: Places, limits: Limits, group: CallGroup | None) -> None:
        self._places = places
        self._limits = limits
        self._group = group
        self._own_times: dict[bytes, float] = {}
        self._vanished_ms = 0.0
        self.cpu_ms = 0
        self.peak_bytes = 0

    def sample(self) -> Reason | None:
        """Measure now; return the limit that has been passed, if any."""
        limit = self._limits.memory_mb * MIB
        used, crowded = self._files()
        if crowded:
            return Reason.TOO_MANY_FILES
        processes, tables, busy_ms = self._processes()
        self.cpu_ms = max(self.cpu_ms, int(busy_ms))
        if self._group is not None:
            if self._group.out_of_memory():
                return Reason.MEMORY_LIMIT
            self.cpu_ms = max(self.cpu_ms, self._group.cpu_ms() or 0)
        if self.cpu_ms >= self._limits.cpu_ms:
            return Reason.CPU_LIMIT
        kernel = tables + self._sockets()
        total = used + sum(processes.values()) + kernel
        # Pages that forked processes share are counted once for each of them. Before killing for
        # it, ask for the exact share.
        if total > limit and len(processes) > 1:
            total = used + self._exact(processes) + kernel
        self.peak_bytes = max(self.peak_bytes, total)
        return Reason.MEMORY_LIMIT if total > limit else None

    def _files(self) -> tuple[int, bool]:
        used = 0
        crowded = False
        for place in self._places.writable:
            facts = os.fstatvfs(place)
            used += (facts.f_blocks - facts.f_bfree) * facts.f_frsize
            crowded = crowded or facts.f_files - facts.f_ffree > self._limits.max_files
        return used, crowded

    def _processes(self) -> tuple[dict[str, int], int, float]:
        """Return resident bytes by process, the bytes of the tables that the kernel keeps of
        their memory, and the CPU milliseconds of all of them so far.
        """
        resident: dict[str, int] = {}
        tables = 0
        kernel_ms = 0.0
        own: dict[bytes, float] = {}
        try:
            names = os.listdir(self._places.proc)
        except OSError:
            # The namespace is gone: there is nothing left to measure.
            return resident, 0, 0.0
        for name in names:
            if not name.isdecimal():
                continue
            line = self._read(f"{name}/stat")
            # The name of a program may hold spaces and brackets; the fields follow its last one.
            fields = line[line.rfind(b")") + 2 :].split()
            if len(fields) < 22:
                continue
            mine = (int(fields[11]) + int(fields[12])) * _TICK_MS
            reaped = (int(fields[13]) + int(fields[14])) * _TICK_MS
            kernel_ms += mine + reaped
            own[name.encode() + b":" + fields[19]] = mine
            resident[name], held = self._memory(name)
            tables += held
        # Times of reaped children reach their parent, unless it ignores them; then what was last
        # seen of them counts.
        for key, spent in self._own_times.items():
            if key not in own:
                self._vanished_ms += spent
        self._own_times = own
        return resident, tables, max(kernel_ms, sum(own.values()) + self._vanished_ms)

    def _memory(self, name: str) -> tuple[int, int]:
        """Return how many bytes a process holds of its own, and how many the kernel's tables of
        its memory do: a program may touch a page here and there of an endless stretch, for free
        but for those.
        """
        held = self._held(f"{name}/status")
        if not held:
            # The first thread may be gone while others keep all the memory.
            tasks = (self._held(f"{name}/task/{task}/status") for task in self._tasks(name))
            held = next(filter(None, tasks), {})
        # File-backed pages are the kernel's to drop; the rest is this process's own. A little
        # shared memory is mapped files of the workspace, which count there.
        shared = held.get(b"RssShmem", 0)
        own = held.get(b"RssAnon", 0) + (shared if shared > 16 * MIB else 0)
        return own, held.get(b"VmPTE", 0)

    def _held(self, status: str) -> dict[bytes, int]:
        return {key: int(number) * 1024 for key, number in _HELD.findall(self._read(status))}

    def _tasks(self, name: str) -> list[str]:
        try:
            opened = os.open(f"{name}/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._places.proc)
        except OSError:
            return []  # the process ended meanwhile
        try:
            return os.listdir(opened)
        except OSError:
            return []
        finally:
            os.close(opened)

    def _exact(self, processes: dict[str, int]) -> int:
        total = 0
        for name, resident in processes.items():
            found = _PSS.search(self._read(f"{name}/smaps_rollup"))
            total += min(resident, int(found.group(1)) * 1024) if found else resident
        return total

    def _sockets(self) -> int:
        told = self._read("1/net/sockstat")
        found = _SOCKETS.search(told)
        many = max(0, int(found.group(1)) - _FREE_SOCKETS) * _SOCKET_BYTES if found else 0
        return many + self._streams(told)

    def _streams(self, told: bytes) -> int:
        """Return how much lies in connections, whose buffers grow by themselves."""
        found = _STREAMS.search(told)
        # A connection has two ends in here.
        if not found or int(found[1]) < 2 or int(found[2]) * _PAGE < _MUCH_IN_STREAMS:
            return 0
        return sum(
            int(unsent, 16) + int(unread, 16)
            for name in ("1/net/tcp", "1/net/tcp6")
            for unsent, unread in _QUEUES.findall(self._read(name, whole=True))
        )

    def _read(self, name: str, *, whole: bool = False) -> bytes:
        try:
            opened = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._places.proc)
        except OSError:
            return b""  # the process ended between the listing and now
        try:
            said = os.read(opened, 8192)
            while whole and (more := os.read(opened, 65536)):
                said += more
            return said
        except OSError:
            return b""
        finally:
            os.close(opened)
