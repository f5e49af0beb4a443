"""The filter refuses every call of the table, on both processors and in a real sandbox."""

import errno
import json
import os
import re
import struct
from pathlib import Path

import pytest

from apps.sandboxd.seccomp import MACHINES, Machine, build, machine, numbers
from apps.sandboxd.syscalls import ABSENT, FORBIDDEN, JUDGED, NEWEST
from tests.sandboxd.daemon import Daemon

ALLOW = 0x7FFF0000
KILL = 0x80000000


def refuse(code: int) -> int:
    return 0x00050000 | code


def verdict(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """Run a filter program as the kernel would."""
    data = struct.pack("<iIQ6Q", number, audit, 0, *(arguments + (0,) * 6)[:6])
    steps = list(struct.iter_unpack("=HBBI", program))
    at, held = 0, 0
    while True:
        code, if_true, if_false, operand = steps[at]
        at += 1
        if code == 0x20:
            (held,) = struct.unpack_from("<I", data, operand)
        elif code == 0x54:
            held &= operand
        elif code == 0x06:
            return int(operand)
        else:
            truth = {
                0x15: held == operand,
                0x25: held > operand,
                0x35: held >= operand,
                0x45: bool(held & operand),
            }[code]
            at += if_true if truth else if_false


@pytest.fixture(params=sorted(MACHINES))
def here(request: pytest.FixtureRequest) -> Machine:
    return MACHINES[request.param]


def test_every_forbidden_call_is_refused(here: Machine) -> None:
    program = build(here)
    for name, number in numbers(FORBIDDEN, here).items():
        assert verdict(program, here.audit, number) == refuse(errno.EPERM), name
    for name, number in numbers(ABSENT, here).items():
        assert verdict(program, here.audit, number) == refuse(errno.ENOSYS), name


def test_everything_else_is_allowed_up_to_the_newest_known(here: Machine) -> None:
    program = build(here)
    listed = {n for table in (ABSENT, FORBIDDEN, JUDGED) for n in numbers(table, here).values()}
    for number in range(NEWEST + 1):
        if number not in listed:
            assert verdict(program, here.audit, number) == ALLOW, number
    for number in (NEWEST + 1, 1000, 0x3FFFFFFF):
        assert verdict(program, here.audit, number) == refuse(errno.ENOSYS)


def test_a_foreign_processor_kills(here: Machine) -> None:
    other = next(one for one in MACHINES.values() if one.name != here.name)
    assert verdict(build(here), other.audit, 0) == KILL
    assert verdict(build(here), 0x40000003, 20) == KILL
    if here.name == "x86_64":
        assert verdict(build(here), here.audit, 0x40000000 + 1) == KILL


SOCKETS = [
    ((1, 1, 0), True), ((1, 2, 0), True), ((1, 5 | 0o2000000, 0), True), ((1, 3, 0), False),
    ((2, 1 | 0o4000, 6), True), ((2, 2, 17), True), ((2, 2, 1), False), ((2, 3, 255), False),
    ((2, 1, 132), False), ((2, 1, 262), False), ((2, 5, 0), False), ((10, 1, 0), True),
    ((10, 2, 17), True), ((10, 3, 58), False), ((16, 3, 0), True), ((16, 2, 0), True),
    ((16, 3, 9), False), ((16, 3, 15), False), ((17, 3, 0), False), ((38, 5, 0), False),
    ((40, 1, 0), False), ((31, 3, 0), False), ((30, 1, 0), False), ((44, 3, 0), False),
    ((0, 1, 0), False), ((29, 3, 1), False),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "allowed"), SOCKETS)
def test_only_plain_sockets_are_made(
    here: Machine, arguments: tuple[int, int, int], allowed: bool
) -> None:
    program = build(here)
    for name in ("socket", "socketpair"):
        number = numbers(JUDGED, here)[name]
        assert (verdict(program, here.audit, number, *arguments) == ALLOW) is allowed


ARGUMENTS = [
    ("clone", (0x11,), True),
    ("clone", (0x3D0F00,), True),
    *((("clone", (0x11 | flag,), False)) for flag in (
        0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)),
    ("ioctl", (0, 0x5401), True),
    ("ioctl", (0, 0x5412), False),
    ("ioctl", (0, 0xFF00005412), False),
    ("ioctl", (0, 0x541C), False),
    ("ioctl", (0, 0x5423), False),
    ("personality", (0,), True),
    ("personality", (0xFFFFFFFF,), True),
    ("personality", (0x0040000,), False),
    ("fchmod", (0, 0o755), True),
    ("fchmod", (0, 0o4755), False),
    ("fchmodat", (0, 0, 0o2755), False),
    ("fchmodat2", (0, 0, 0o6755, 0), False),
    ("mknodat", (0, 0, 0o010644, 0), True),
    ("mknodat", (0, 0, 0o020644, 0), False),
    ("mknodat", (0, 0, 0o060644, 0), False),
    ("chmod", (0, 0o4755), False),
    ("creat", (0, 0o4755), False),
    ("mknod", (0, 0o020644, 0), False),
    ("fcntl", (0, 1024), True),
    ("fcntl", (0, 1026), False),
    ("setsockopt", (0, 1, 2), True),
    ("setsockopt", (0, 6, 7), True),
    *((("setsockopt", (0, 1, option), False)) for option in (7, 8, 32, 33)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "allowed"), ARGUMENTS)
def test_some_calls_are_judged_by_their_arguments(
    here: Machine, name: str, arguments: tuple[int, ...], allowed: bool
) -> None:
    number = numbers(JUDGED, here).get(name)
    if number is None:
        return  # this processor has no such call
    assert (verdict(build(here), here.audit, number, *arguments) == ALLOW) is allowed


def test_a_wish_for_larger_buffers_is_heard_and_not_met(here: Machine) -> None:
    number = numbers(JUDGED, here)["setsockopt"]
    assert verdict(build(here), here.audit, number, 0, 1, 7) == refuse(0)


@pytest.mark.parametrize(
    ("header", "name"),
    [("x86_64-linux-gnu/asm/unistd_64.h", "x86_64"), ("asm-generic/unistd.h", "aarch64")],
)
def test_numbers_are_those_of_the_kernel_headers(header: str, name: str) -> None:
    file = Path("/usr/include", header)
    if not file.is_file():
        pytest.skip("The kernel's headers are not installed here.")
    found = {
        match[1]: int(match[2])
        for match in re.finditer(r"#define __NR(?:3264)?_(\w+) (\d+)", file.read_text())
    }
    for table in (ABSENT, FORBIDDEN, JUDGED):
        for call, number in numbers(table, MACHINES[name]).items():
            # Headers older than a call do not name it.
            assert found.get(call, number) == number, call


@pytest.mark.sandbox
def test_a_real_sandbox_refuses_every_call_of_the_table(daemon: Daemon) -> None:
    here = machine()
    wanted = {
        name: [number, code]
        for table, code in ((ABSENT, errno.ENOSYS), (FORBIDDEN, errno.EPERM))
        for name, number in numbers(table, here).items()
    }
    told = daemon.told(
        """
        import ctypes, json, sys
        libc = ctypes.CDLL(None, use_errno=True)
        wrong = {}
        for name, (number, code) in json.load(sys.stdin).items():
            ctypes.set_errno(0)
            answer = libc.syscall(number, 0, 0, 0, 0, 0, 0)
            if answer != -1 or ctypes.get_errno() != code:
                wrong[name] = [answer, ctypes.get_errno()]
        print(json.dumps(wrong))
        """,
        stdin=json.dumps(wanted).encode(),
    )
    assert told == {}


@pytest.mark.sandbox
def test_a_real_sandbox_makes_no_unusual_socket_and_no_namespace(daemon: Daemon) -> None:
    told = daemon.told(
        """
        import ctypes, errno, fcntl, json, os, socket
        made = []
        for family, kind, protocol in (
            (40, 1, 0), (17, 3, 0), (17, 2, 0), (38, 5, 0), (31, 3, 0), (30, 1, 0), (44, 3, 0),
            (2, 3, 1), (10, 3, 58), (16, 3, 9), (16, 3, 6), (2, 1, 132),
        ):
            try:
                socket.socket(family, kind, protocol).close()
                made.append([family, kind, protocol])
            except OSError:
                pass
        libc = ctypes.CDLL(None, use_errno=True)
        for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
            if libc.unshare(flag) == 0:
                made.append(["unshare", flag])
        if libc.personality(0x0040000) != -1:
            made.append("personality")
        try:
            os.mknod("/workspace/device", 0o020666, os.makedev(1, 3))
            made.append("device")
        except OSError:
            pass
        # Making an interface over the routing socket needs a capability that nobody has.
        with socket.socket(16, 3, 0) as link:
            link.settimeout(5)
            header = (32).to_bytes(4, "little") + (16).to_bytes(2, "little")
            header += (0x605).to_bytes(2, "little") + bytes(8) + bytes(16)
            link.send(header)
            answer = int.from_bytes(link.recv(4096)[16:20], "little", signed=True)
            if answer != -errno.EPERM:
                made.append(["interface", answer])
        print(json.dumps(made))
        """
    )
    assert told == []


def test_the_program_stays_below_the_kernels_bound() -> None:
    assert len(build()) // 8 < 4096
    assert os.uname().machine in MACHINES
