"""Say how much one call may use, and hold every wish under a ceiling."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

MIB: Final = 1024 * 1024


class BadLimit(ValueError):
    """A limit is unknown, not a whole number, or not above zero."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call may use; each number has one stated enforcer in docs/sandbox.md."""

    wall_ms: int = 30_000
    cpu_ms: int = 20_000
    memory_mb: int = 256
    processes: int = 64
    workspace_mb: int = 64
    tmp_mb: int = 64
    shm_mb: int = 16
    max_files: int = 10_000
    open_files: int = 256
    stdout_keep_kib: int = 64
    stderr_keep_kib: int = 64
    output_read_mb: int = 16
    result_kib: int = 16 * 1024

    def __post_init__(self) -> None:
        for name in NAMES:
            value = getattr(self, name)
            # bool is an int in Python, and True is no amount.
            if type(value) is not int or value <= 0:
                raise BadLimit(f"The limit {name} has to be a whole number above zero.")

    @classmethod
    def for_python(cls, *, memory_mb: int | None = None, cpu_ms: int | None = None) -> Limits:
        """Return the usual limits of a Python call, with what its definition asks for."""
        usual = cls()
        return replace(
            usual,
            memory_mb=usual.memory_mb if memory_mb is None else memory_mb,
            cpu_ms=usual.cpu_ms if cpu_ms is None else cpu_ms,
        )

    @classmethod
    def for_node(cls, *, memory_mb: int | None = None, cpu_ms: int | None = None) -> Limits:
        """Return the usual limits of a Node call: its loader opens more, its heap starts larger."""
        usual = cls.for_python(memory_mb=512 if memory_mb is None else memory_mb, cpu_ms=cpu_ms)
        return replace(usual, open_files=2_048)


NAMES: Final = tuple(one.name for one in fields(Limits))

# What a deployment allows when it says nothing else.
CEILINGS: Final = Limits(
    wall_ms=600_000,
    cpu_ms=600_000,
    memory_mb=2_048,
    processes=256,
    workspace_mb=512,
    tmp_mb=512,
    shm_mb=64,
    max_files=100_000,
    open_files=4_096,
    stdout_keep_kib=16 * 1024,
    stderr_keep_kib=1_024,
    output_read_mb=64,
    result_kib=16 * 1024,
)

# Below these nothing starts, so a smaller wish would look like a fault of the caller's code.
FLOORS: Final = Limits(
    wall_ms=1,
    cpu_ms=1,
    memory_mb=32,
    processes=1,
    workspace_mb=1,
    tmp_mb=1,
    shm_mb=1,
    max_files=16,
    open_files=32,
    stdout_keep_kib=1,
    stderr_keep_kib=1,
    output_read_mb=1,
    result_kib=1,
)


@dataclass(frozen=True, slots=True)
class Clamp:
    """One wish that was not granted as asked."""

    name: str
    asked: int
    given: int


def clamp(wished: Limits, ceilings: Limits = CEILINGS) -> tuple[Limits, tuple[Clamp, ...]]:
    """Return the limits that will be in force, and every wish that was changed."""
    changed: list[Clamp] = []
    for name in NAMES:
        asked: int = getattr(wished, name)
        # The ceiling speaks last: a deployment may go below our floors.
        given = min(max(asked, getattr(FLOORS, name)), getattr(ceilings, name))
        if given != asked:
            changed.append(Clamp(name, asked, given))
    return replace(wished, **{one.name: one.given for one in changed}), tuple(changed)


def read_limits(given: Mapping[str, object], base: Limits | None = None) -> Limits:
    """Build limits from untrusted names and numbers, starting from `base`."""
    start = base or Limits()
    unknown = sorted(set(given) - set(NAMES))
    if unknown:
        raise BadLimit(f"There is no limit named {unknown[0][:40]!r}.")
    values: dict[str, int] = {}
    for name, value in given.items():
        if type(value) is not int:
            raise BadLimit(f"The limit {name} has to be a whole number above zero.")
        values[name] = value
    return replace(start, **values)


def process_limits(limits: Limits) -> tuple[str, ...]:
    """Return the options of prlimit that put the kernel's per-process limits in force.

    It runs inside the sandbox, just before the gate: there the count of processes starts at zero,
    and lowering one's own limits needs no privilege that a container might lack.
    """
    wanted = (
        ("data", resource.RLIMIT_DATA, limits.memory_mb * MIB),
        ("fsize", resource.RLIMIT_FSIZE, limits.workspace_mb * MIB),
        ("nofile", resource.RLIMIT_NOFILE, limits.open_files),
        ("cpu", resource.RLIMIT_CPU, limits.cpu_ms // 1000 + 1),
        # The first process of the namespace is the one process more.
        ("nproc", resource.RLIMIT_NPROC, limits.processes + 1),
        # One byte, not zero: with zero a piped core handler of the host still runs.
        ("core", resource.RLIMIT_CORE, 1),
        ("memlock", resource.RLIMIT_MEMLOCK, 64 * 1024),
        ("msgqueue", resource.RLIMIT_MSGQUEUE, 0),
        ("sigpending", resource.RLIMIT_SIGPENDING, 256),
    )
    return tuple(
        f"--{name}={most}:{most}" for name, kind, wish in wanted for most in (_lower(kind, wish),)
    )


def _lower(kind: int, wish: int) -> int:
    """Stay at or under what the supervisor itself was given; nobody may raise a hard limit."""
    hard = resource.getrlimit(kind)[1]
    return wish if hard == resource.RLIM_INFINITY else min(wish, hard)
