"""Tell an operator in sentences what holds here, who enforces each limit, and what is missing."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence

from apps.domain.egress import AddressBlock
from apps.sandboxd.launch import Host
from apps.sandboxd.probe import MEND_RUNTIMES
from apps.sandboxd.runtimes import NAMES, TITLES
from apps.sandboxd.uids import UidRange

_V1, _V2 = 1, 2


def in_force(
    host: Host,
    runtimes: Mapping[str, str],
    *,
    uids: UidRange,
    exempt: Sequence[AddressBlock],
    node: str,
    ready: int,
    ready_seconds: int,
) -> tuple[str, ...]:
    """Return one sentence for each thing that holds."""
    return (
        f"driver: bubblewrap {host.bubblewrap.label} at {host.bubblewrap.path}, on "
        f"{platform.machine()}, node {node}",
        _identity(host, uids),
        "walls: own user, pid, network, ipc, host name, mount and, where the kernel has it, "
        "control group namespaces; no capabilities, no new privileges, no further namespaces",
        f"system calls: a filter of {len(host.seccomp) // 8} instructions for "
        f"{platform.machine()}; a call newer than it does not exist",
        _groups(host),
        *_limits(host),
        *(f"runtime {name}: {version}" for name, version in runtimes.items()),
        _network(exempt),
        _ready(ready, ready_seconds),
    )


def missing(host: Host, runtimes: Mapping[str, str]) -> tuple[str, ...]:
    """Return one sentence for each thing that could be better, with what mends it."""
    lines: list[str] = []
    if host.uids is None:
        lines.append(
            "Sandboxes share the supervisor's user id; run it under a user of its own that owns "
            "nothing else."
        )
    if host.groups is None:
        lines.append(
            "No control group: memory may overshoot between two looks; delegate a writable cgroup "
            "tree to the supervisor (systemd: Delegate=cpu memory pids)."
        )
    lines += [
        f"No {name} runtime, {TITLES[name]}: {MEND_RUNTIMES}"
        for name in NAMES
        if name not in runtimes
    ]
    return tuple(lines)


def _identity(host: Host, uids: UidRange) -> str:
    if host.uids is None:
        return f"identity: user id {os.geteuid()} for the supervisor and for every sandbox"
    last = uids.start + uids.count - 1
    return (
        f"identity: supervisor as root, each running sandbox under a user id of its own from "
        f"{uids.start} to {last}; bubblewrap is never started as root"
    )


def _groups(host: Host) -> str:
    if host.groups is None:
        return "control groups: none"
    return f"control groups: version {host.groups.version}, with {', '.join(host.groups.enforces)}"


def _limits(host: Host) -> tuple[str, ...]:
    has = () if host.groups is None else host.groups.enforces
    version = _V1 if host.groups is None else host.groups.version
    memory = {_V1: "memory.limit_in_bytes", _V2: "memory.max"}[version]
    cpu = {_V1: "cpu.cfs_quota_us", _V2: "cpu.max"}[version]

    def also(controller: str, file: str) -> str:
        return f"the control group ({file}), " if controller in has else ""

    return (
        f"memory: {also('memory', memory)}the watcher every 50 ms, and the kernel for each process "
        "(RLIMIT_DATA)",
        f"processes: {also('pids', 'pids.max')}the kernel, counted inside the user namespace "
        "(RLIMIT_NPROC)",
        f"processor time: {also('cpu', cpu)}the watcher's sum over all processes, and the kernel "
        "for each process (RLIMIT_CPU)",
        "wall clock and output: the supervisor, by its own clock and count",
        "disk: the size of each writable file system; number of files: the watcher; one file, "
        "descriptors, core dumps, locked memory, queues: the kernel for each process",
    )


def _ready(many: int, seconds: int) -> str:
    if not many:
        return "start: every sandbox is launched for the program that runs in it"
    return (
        f"start: up to {many} launched ahead, each for {seconds} s at most and for one program of "
        "whoever comes first; the others are launched for the program that runs in them"
    )


def _network(exempt: Sequence[AddressBlock]) -> str:
    beside = f"; reached all the same: {', '.join(map(str, exempt))}" if exempt else ""
    return (
        "network: none, unless a job names hosts; then only through the supervisor's proxy, to "
        f"public addresses that it looked up and checked itself{beside}"
    )
