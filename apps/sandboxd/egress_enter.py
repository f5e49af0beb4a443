"""Bind sockets inside a sandbox's network namespace, and hand them out to the supervisor.

Run as a program of its own, since only a process with one thread may enter a user namespace. It
runs before the sandboxed program does, and has ended by then. Nothing here may import more than
the standard library, and nothing of ours.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import socket
import sys
from typing import Final

_OWNER_OF: Final = 0xB701  # ioctl NS_GET_USERNS
_USER, _NETWORK = 0x10000000, 0x40000000


def _enter(namespace: int, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def main(given: list[str]) -> int:
    """Enter the namespace of descriptor 0, bind what is asked for, send it through descriptor 1."""
    uid = int(given[0])
    owner = fcntl.ioctl(0, _OWNER_OF)
    if os.geteuid() == 0 and uid:
        # The owner of the namespace may do all that is needed in there, and nothing out here.
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _enter(owner, _USER)
    _enter(0, _NETWORK)
    sockets: list[socket.socket] = []
    for wish in given[1:]:
        kind, address, port = wish.split("/")
        one = socket.socket(
            socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM
        )
        one.bind((address, int(port)))
        if kind == "tcp":
            one.listen(32)
        sockets.append(one)
    numbers = array.array("i", [one.fileno() for one in sockets])
    with socket.socket(fileno=1) as channel:
        channel.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
