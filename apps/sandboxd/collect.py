"""Bring declared files out of a dead sandbox without following anything that it left behind."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Sequence
from typing import Final

from apps.domain.paths import BadPath, check_name
from apps.sandboxd.jobs import Output

_OPENAT2: Final = 437  # the same number on every processor that we support
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_RESOLVE: Final = _NO_XDEV | _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

_libc = ctypes.CDLL(None, use_errno=True)
REFUSALS: Final = {
    errno.ENOENT: "missing",
    errno.ENOTDIR: "missing",
    errno.ELOOP: "link",
    errno.EXDEV: "outside",
    errno.ENXIO: "not_a_file",
    errno.EACCES: "unreadable",
    errno.EPERM: "unreadable",
}


def open_beneath(folder: int, name: str, flags: int = _FLAGS, mode: int = 0) -> int:
    """Open a file below a folder; links, other mounts and escapes raise OSError."""
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, mode, _RESOLVE)
    opened: int = _libc.syscall(
        ctypes.c_long(_OPENAT2),
        ctypes.c_int(folder),
        os.fsencode(name),
        how,
        ctypes.c_size_t(len(how)),
    )
    if opened < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return opened


def collect(
    folder: int, names: Sequence[str], *, max_file: int, max_total: int
) -> tuple[Output, ...]:
    """Read each named file of a workspace whose processes are all dead."""
    found: list[Output] = []
    left = max_total
    for name in names:
        output = _one(folder, name, max_file=min(max_file, left))
        left -= len(output.content)
        found.append(output)
    return tuple(found)


def _one(folder: int, name: str, *, max_file: int) -> Output:
    try:
        check_name(name)
        opened = open_beneath(folder, name)
    except BadPath:
        return Output(name, refused="bad_name")
    except OSError as problem:
        return Output(name, refused=REFUSALS.get(problem.errno or 0, "unreadable"))
    try:
        facts = os.fstat(opened)
        if not stat.S_ISREG(facts.st_mode):
            return Output(name, refused="not_a_file")
        if facts.st_nlink != 1:
            return Output(name, refused="hard_link")
        if facts.st_size > max_file:
            return Output(name, refused="too_large")
        # One byte more than allowed proves an excess whatever the size said.
        with os.fdopen(opened, "rb", closefd=False) as file:
            content = file.read(max_file + 1)
        if len(content) > max_file:
            return Output(name, refused="too_large")
        return Output(name, content=content)
    except OSError:
        return Output(name, refused="unreadable")
    finally:
        os.close(opened)
