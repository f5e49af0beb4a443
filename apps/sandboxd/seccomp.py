"""Build the system-call filter of a sandbox as raw BPF, without a library.

The kernel takes an array of 8-byte instructions. Each rule below is a short straight line that
either returns a verdict or falls through to the next rule; the last instruction allows.
"""

from __future__ import annotations

import errno
import os
import struct
from dataclasses import dataclass
from typing import Final

from apps.sandboxd.syscalls import ABSENT, FORBIDDEN, JUDGED, NEWEST, Numbers

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_GREATER: Final = 0x25
_AT_LEAST: Final = 0x35
_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06

_KILL: Final = 0x80000000
_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000

_NUMBER_AT: Final = 0
_ARCH_AT: Final = 4
_X32_BIT: Final = 0x40000000

# Every CLONE_NEW flag that the old clone call knows.
_NEW_NAMESPACE: Final = 0x7E020000
_SET_ID_BITS: Final = 0o6000
_TYPE_OF_FILE: Final = 0o170000
_DEVICES: Final = (0o020000, 0o060000)
# TIOCSTI and TIOCLINUX write into a terminal, TIOCSETD loads line disciplines.
_TERMINAL_TRICKS: Final = (0x5412, 0x541C, 0x5423)

# F_NOTIFY, the older way to watch a folder.
_FOLDER_WATCH: Final = (1026,)

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DATAGRAM, _RAW, _SEQPACKET = 1, 2, 3, 5
_TYPE_MASK: Final = 0xF
_TCP, _UDP = 6, 17
_OF_SOCKETS: Final = 1
# SO_SNDBUF and SO_RCVBUF, and both for whoever administers the network.
_BUFFERS: Final = (7, 8, 32, 33)


@dataclass(frozen=True, slots=True)
class Machine:
    """What differs between processors: the audit number and the column of the table."""

    name: str
    audit: int
    column: int


MACHINES: Final = {
    "x86_64": Machine("x86_64", 0xC000003E, 0),
    "aarch64": Machine("aarch64", 0xC00000B7, 1),
}


class UnknownMachine(RuntimeError):
    """There is no table of system calls for this processor."""


def machine(name: str | None = None) -> Machine:
    """Return the table column of a processor, by default of this one."""
    wanted = name or os.uname().machine
    if wanted not in MACHINES:
        raise UnknownMachine(f"Kaizen has no system-call filter for {wanted} processors.")
    return MACHINES[wanted]


def numbers(table: Numbers, on: Machine) -> dict[str, int]:
    """Return the calls of one table that exist on a processor."""
    return {name: row for name, pair in table.items() if (row := pair[on.column]) is not None}


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)


def _refuse(code: int) -> bytes:
    return _instruction(_RETURN, _ERRNO | code)


def _argument(index: int) -> bytes:
    # The low half of an argument; both processors are little-endian, and the kernel itself looks
    # at no more than 32 bits of every argument that we judge.
    return _instruction(_LOAD, 16 + 8 * index)


def _when(number: int, body: list[bytes]) -> list[bytes]:
    """Run `body` only for one call; it has to end by returning, or by reloading the number."""
    return [_instruction(_EQUAL, number, 0, len(body)), *body]


_RELOAD: Final = _instruction(_LOAD, _NUMBER_AT)


def _refuse_bits(number: int, index: int, bits: int) -> list[bytes]:
    return _when(
        number,
        [_argument(index), _instruction(_ANY_BIT, bits, 0, 1), _refuse(errno.EPERM), _RELOAD],
    )


def _refuse_values(
    number: int, index: int, values: tuple[int, ...], mask: int | None = None
) -> list[bytes]:
    body = [_argument(index)]
    if mask is not None:
        body.append(_instruction(_AND, mask))
    for value in values:
        body += [_instruction(_EQUAL, value, 0, 1), _refuse(errno.EPERM)]
    return _when(number, [*body, _RELOAD])


def _allow_only(index: int, values: tuple[int, ...], code: int, mask: int | None = None) -> bytes:
    """Return instructions that refuse unless an argument has one of the values."""
    body = [_argument(index)]
    if mask is not None:
        body.append(_instruction(_AND, mask))
    for place, value in enumerate(values):
        # A match jumps over the remaining comparisons and the refusal.
        body.append(_instruction(_EQUAL, value, len(values) - place, 0))
    return b"".join([*body, _refuse(code)])


def _split(program: bytes) -> list[bytes]:
    return [program[at : at + 8] for at in range(0, len(program), 8)]


def _sockets(number: int) -> list[bytes]:
    """Let through local sockets, TCP, UDP and the routing table, and nothing else.

    Families outside this list reach kernel code, and one of them the hypervisor, that no network
    namespace confines.
    """
    allow = _instruction(_RETURN, _ALLOW)
    local = [
        *_split(_allow_only(1, (_STREAM, _DATAGRAM, _SEQPACKET), errno.EPERM, _TYPE_MASK)),
        allow,
    ]
    inet = [
        *_split(_allow_only(1, (_STREAM, _DATAGRAM), errno.EPERM, _TYPE_MASK)),
        *_split(_allow_only(2, (0, _TCP, _UDP), errno.EPERM)),
        allow,
    ]
    routes = [
        *_split(_allow_only(1, (_RAW, _DATAGRAM), errno.EPERM, _TYPE_MASK)),
        *_split(_allow_only(2, (0,), errno.EPERM)),
        allow,
    ]
    body = [
        _argument(0),
        *_when(_UNIX, local),
        *_when(_INET, inet),
        *_when(_INET6, inet),
        *_when(_NETLINK, routes),
        _refuse(errno.EAFNOSUPPORT),
    ]
    return _when(number, body)


def _buffers(number: int) -> list[bytes]:
    """Let every socket keep the buffers that it was made with, and say yes to a wish for others.

    Larger ones would hold memory that nobody is charged for. The kernel itself lowers such a wish
    in silence, so programs look at what they got, and do not expect a refusal.
    """
    values = [_instruction(_EQUAL, one, 0, 1) + _refuse(0) for one in _BUFFERS]
    named = [_argument(2), *_split(b"".join(values)), _RELOAD]
    return _when(number, [_argument(1), *_when(_OF_SOCKETS, named), _RELOAD])


def build(on: Machine | None = None) -> bytes:
    """Return the filter program for a processor, ready for the kernel."""
    here = on or machine()
    judged = numbers(JUDGED, here)
    program = [
        _instruction(_LOAD, _ARCH_AT),
        _instruction(_EQUAL, here.audit, 1, 0),
        _instruction(_RETURN, _KILL),
        _RELOAD,
    ]
    if here.name == "x86_64":
        program += [_instruction(_AT_LEAST, _X32_BIT, 0, 1), _instruction(_RETURN, _KILL)]
    program += [_instruction(_GREATER, NEWEST, 0, 1), _refuse(errno.ENOSYS)]
    for number in sorted(numbers(ABSENT, here).values()):
        program += _when(number, [_refuse(errno.ENOSYS)])
    for number in sorted(numbers(FORBIDDEN, here).values()):
        program += _when(number, [_refuse(errno.EPERM)])
    program += _refuse_bits(judged["clone"], 0, _NEW_NAMESPACE)
    program += _refuse_values(judged["ioctl"], 1, _TERMINAL_TRICKS)
    program += _refuse_values(judged["fcntl"], 1, _FOLDER_WATCH)
    program += _when(
        judged["personality"],
        [*_split(_allow_only(0, (0, 0xFFFFFFFF), errno.EPERM)), _RELOAD],
    )
    for name, index in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)):
        if name in judged:
            program += _refuse_bits(judged[name], index, _SET_ID_BITS)
    if "creat" in judged:
        program += _refuse_bits(judged["creat"], 1, _SET_ID_BITS)
    for name, index in (("mknod", 1), ("mknodat", 2)):
        if name in judged:
            program += _refuse_values(judged[name], index, _DEVICES, _TYPE_OF_FILE)
    for name in ("socket", "socketpair"):
        program += _sockets(judged[name])
    program += _buffers(judged["setsockopt"])
    program.append(_instruction(_RETURN, _ALLOW))
    return b"".join(program)
