"""Give each call a control group of its own, where the host lets us make one.

A container or an ordinary user often has no writable tree. Then there is no group, the watcher
and the kernel's per-process limits stand alone, and the probe says so.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from apps.sandboxd.limits import MIB, Limits

_log = logging.getLogger(__name__)
_aside = ThreadPoolExecutor(max_workers=1, thread_name_prefix="cgroups")

# One core: a period of 100 ms and as much time to run in it.
_PERIOD_US = 100_000


@dataclass(frozen=True, slots=True)
class CallGroup:
    """The control group of one call: one folder per hierarchy that we could use."""

    version: int
    folders: dict[str, Path]

    def attach(self, pid: int) -> None:
        """Put a process, and all that it will start, into the group."""
        for folder in self._places():
            (folder / "cgroup.procs").write_text(str(pid))

    def out_of_memory(self) -> bool:
        """Tell whether the kernel had to kill for memory inside this group."""
        folder = self.folders.get("memory")
        if folder is None:
            return False
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        return _number(folder / name, "oom_kill") > 0

    def cpu_ms(self) -> int | None:
        """Return the CPU time of the whole group, dead processes included."""
        if self.version == 2 and "cpu" in self.folders:
            return _number(self.folders["cpu"] / "cpu.stat", "usage_usec") // 1000
        if "cpuacct" in self.folders:
            return _number(self.folders["cpuacct"] / "cpuacct.usage", "") // 1_000_000
        return None

    def remove(self) -> None:
        """Remove the empty group; a process that is still leaving gets a moment."""
        for folder in self._places():
            for _ in range(20):
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.005)
            else:
                _log.warning("A control group could not be removed: %s", folder.name)

    def _places(self) -> set[Path]:
        return set(self.folders.values())


@dataclass(frozen=True, slots=True)
class GroupTree:
    """Where call groups are made, and which limits they can hold."""

    version: int
    bases: dict[str, Path]
    own: Path
    """The group of the supervisor itself, in one of the hierarchies."""

    def hasten(self) -> None:
        """Let the next process be moved without a wait.

        The kernel moves none before every processor has passed a quiet moment, some milliseconds
        later, and for a while after that any other at once. Moving ourselves to where we are
        changes nothing, and is done beside whatever comes before the move that counts. No group
        can be made meanwhile.
        """
        # Where no thread can be had any more, the move that counts takes its time.
        with suppress(RuntimeError):
            _aside.submit(self._move_to_where_we_are)

    def _move_to_where_we_are(self) -> None:
        try:
            (self.own / "cgroup.procs").write_text(str(os.getpid()))
        except OSError as problem:
            # The move that counts takes its time then, and fails loudly where it has to.
            _log.info("No move was prepared: %s", problem.strerror)

    @property
    def enforces(self) -> tuple[str, ...]:
        """Name the controllers in force."""
        return tuple(sorted(self.bases))

    def make(self, name: str, limits: Limits) -> CallGroup:
        """Make the group of one call with its limits set; raise OSError where that fails."""
        folders = {controller: base / name for controller, base in self.bases.items()}
        group = CallGroup(self.version, folders)
        try:
            for folder in set(folders.values()):
                folder.mkdir()
            for controller, folder in folders.items():
                self._limit(controller, folder, limits)
        except OSError:
            group.remove()
            raise
        return group

    def _limit(self, controller: str, folder: Path, limits: Limits) -> None:
        memory = limits.memory_mb * MIB
        processes = limits.processes + 1
        if controller == "pids":
            (folder / "pids.max").write_text(str(processes))
        elif controller == "memory" and self.version == 2:
            (folder / "memory.max").write_text(str(memory))
            _write_if_there(folder / "memory.swap.max", "0")
            _write_if_there(folder / "memory.oom.group", "1")
        elif controller == "memory":
            (folder / "memory.limit_in_bytes").write_text(str(memory))
            _write_if_there(folder / "memory.memsw.limit_in_bytes", str(memory))
        elif controller == "cpu" and self.version == 2:
            (folder / "cpu.max").write_text(f"{_PERIOD_US} {_PERIOD_US}")
        elif controller == "cpu":
            (folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(_PERIOD_US))

    def sweep_calls(self) -> None:
        """Remove the groups that a killed predecessor left."""
        for base in set(self.bases.values()):
            for leftover in base.glob("call-*"):
                _remove(leftover)

    def sweep(self) -> None:
        """Remove all groups and the tree itself."""
        self.sweep_calls()
        for base in set(self.bases.values()):
            _remove(base)


def _remove(folder: Path) -> None:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return
    except OSError:
        _log.info("A control group is still in use: %s", folder.name)


def find_tree(tag: str) -> GroupTree | None:
    """Make our part of the control group tree, or return None where it is not ours to write."""
    mounts = Path("/proc/self/mountinfo").read_text()
    own = Path("/proc/self/cgroup").read_text()
    for attempt in (_version_1, _version_2):
        try:
            tree = attempt(mounts, own, tag)
        except OSError as problem:
            _log.info("No control groups of this kind: %s", problem.strerror)
            continue
        if tree is not None:
            return tree
    return None


def _version_1(mounts: str, own: str, tag: str) -> GroupTree | None:
    bases: dict[str, Path] = {}
    for controller in ("memory", "pids", "cpu", "cpuacct"):
        base = _v1_base(mounts, own, controller)
        if base is not None:
            bases[controller] = base / tag
    if "memory" not in bases or "pids" not in bases:
        return None
    for base in set(bases.values()):
        base.mkdir(exist_ok=True)
    return GroupTree(1, bases, own=bases["memory"].parent)


def _v1_base(mounts: str, own: str, controller: str) -> Path | None:
    inside = re.search(rf"^\d+:(?:[^:]*,)?{controller}(?:,[^:]*)?:(/.*)$", own, re.MULTILINE)
    if inside is None:
        return None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup" and controller in options.split(","):
            return _below(before.split(), inside.group(1))
    return None


def _version_2(mounts: str, own: str, tag: str) -> GroupTree | None:
    inside = re.search(r"^0::(/.*)$", own, re.MULTILINE)
    line = next((one for one in mounts.splitlines() if " - cgroup2 " in one), None)
    if inside is None or line is None:
        return None
    here = _below(line.partition(" - ")[0].split(), inside.group(1))
    if here is None or not {"memory", "pids"} <= set(
        (here / "cgroup.controllers").read_text().split()
    ):
        return None
    members = (here / "cgroup.procs").read_text().split()
    if here.name != f"{tag}-daemon":
        # Controllers pass on only from a group without processes of its own, and we may move
        # nobody but ourselves. The root of the hierarchy, which has no type, is exempt.
        is_root = not (here / "cgroup.type").exists()
        if not is_root and set(members) - {str(os.getpid())}:
            return None
        if not is_root:
            leaf = here / f"{tag}-daemon"
            leaf.mkdir(exist_ok=True)
            (leaf / "cgroup.procs").write_text(str(os.getpid()))
        ours = here if is_root else leaf
    else:
        ours, here = here, here.parent
    wanted = [c for c in ("memory", "pids", "cpu") if c in _controllers(here)]
    (here / "cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in wanted))
    base = here / tag
    base.mkdir(exist_ok=True)
    (base / "cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in wanted))
    return GroupTree(2, dict.fromkeys(wanted, base), own=ours)


def _controllers(folder: Path) -> Sequence[str]:
    return (folder / "cgroup.controllers").read_text().split()


def _below(mount: Sequence[str], inside: str) -> Path | None:
    """Return the folder of a group under a mount that may show only part of the hierarchy."""
    root, point = mount[3], mount[4]
    if root == "/":
        return Path(point) / inside.lstrip("/")
    if inside == root or inside.startswith(root + "/"):
        return Path(point) / inside[len(root) :].lstrip("/")
    return None


def _number(file: Path, key: str) -> int:
    """Read a counter; a file or a line that is not there counts as nothing."""
    try:
        text = file.read_text()
    except OSError:
        return 0
    found = re.search(rf"^{key} ?(\d+)$", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def _write_if_there(file: Path, text: str) -> None:
    if file.exists():
        file.write_text(text)
