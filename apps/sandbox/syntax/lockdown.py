"""Leave a process nothing but memory and the pipes that it holds already.

An allow-list: whatever is not on it fails with EPERM. No file can be opened, no process started or
signalled, no socket made, and no memory made executable, for the rest of the process's life.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct
from typing import Final

_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2
_PROT_EXEC: Final = 4

_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | errno.EPERM
_KILL: Final = 0x80000000
_NUMBER_AT, _ARCH_AT, _THIRD_ARGUMENT_AT = 0, 4, 32

# name: (x86-64, aarch64)
ALLOWED: Final = {
    "read": (0, 63),
    "write": (1, 64),
    "munmap": (11, 215),
    "brk": (12, 214),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "sched_yield": (24, 124),
    "futex": (202, 98),
    "getrandom": (318, 278),
    "clock_gettime": (228, 113),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
UNLESS_EXECUTABLE: Final = {"mmap": (9, 222), "mprotect": (10, 226)}
_MACHINES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}


class LockdownFailed(RuntimeError):
    """The kernel did not take the filter, so nothing untrusted may be read."""


def lock_down(*, memory: int, cpu_seconds: int) -> None:
    """Give up everything that parsing does not need, for good."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    program = build_filter(os.uname().machine)
    instructions = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(instructions))
    filter_program = ctypes.create_string_buffer(described, len(described))
    libc = ctypes.CDLL(None, use_errno=True)
    prctl = libc.prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    if prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise LockdownFailed(f"No new privileges: errno {ctypes.get_errno()}.")
    address = ctypes.addressof(filter_program)
    if prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, address, 0, 0) != 0:
        raise LockdownFailed(f"System-call filter: errno {ctypes.get_errno()}.")


def build_filter(machine: str) -> bytes:
    """Return the filter program for a processor."""
    if machine not in _MACHINES:
        raise LockdownFailed(f"There is no system-call filter for {machine} processors.")
    audit, column = _MACHINES[machine]
    program = [
        _instruction(_LOAD, _ARCH_AT),
        _instruction(_EQUAL, audit, 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER_AT),
    ]
    for name in sorted(UNLESS_EXECUTABLE):
        program += [
            _instruction(_EQUAL, UNLESS_EXECUTABLE[name][column], 0, 4),
            _instruction(_LOAD, _THIRD_ARGUMENT_AT),
            _instruction(_ANY_BIT, _PROT_EXEC, 0, 1),
            _instruction(_RETURN, _REFUSE),
            _instruction(_RETURN, _ALLOW),
        ]
    for name in sorted(ALLOWED):
        program += [
            _instruction(_EQUAL, ALLOWED[name][column], 0, 1),
            _instruction(_RETURN, _ALLOW),
        ]
    program.append(_instruction(_RETURN, _REFUSE))
    return b"".join(program)


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)
