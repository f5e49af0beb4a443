"""Listen inside a sandbox's network before its program runs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from apps.domain.egress import HTTPS, Network, NetworkKind
from apps.sandboxd.egress import NAMES_PORT, PROXY_PORT, Egress
from apps.sandboxd.egress_route import Routes

_MAX_LISTENED: Final = 16
_ENTER_SECONDS: Final = 10.0
_HELPER: Final = Path(__file__).with_name("egress_enter.py")


class NoWayIn(RuntimeError):
    """The sockets inside a sandbox could not be made; the sentence is for the operator."""


def open_egress(*, network: Network, routes: Routes, init_pid: int, uid: int | None) -> Egress:
    """Make the way out of a sandbox whose program has not begun, or raise NoWayIn."""
    ports = _listened(network)
    wishes = [f"tcp/127.0.0.1/{PROXY_PORT}", f"udp/127.0.0.1/{NAMES_PORT}"]
    # Every address of its loopback: each made-up one is reached at these ports.
    wishes += [f"tcp/0.0.0.0/{port}" for port in ports]
    sockets = _bound_inside(wishes, init_pid, uid)
    return Egress(network, routes, sockets[0], sockets[1], tuple(sockets[2:]))


def _listened(network: Network) -> list[int]:
    """Return the ports at which programs that know no proxy are heard."""
    ports = {HTTPS} if network.kind is NetworkKind.ALLOWLIST else {80, HTTPS}
    listed = sorted({port for rule in network.hosts for port in rule.ports})
    if listed:
        ports = set(listed[:_MAX_LISTENED])
    return sorted(ports - {PROXY_PORT})


def _bound_inside(wishes: Sequence[str], init_pid: int, uid: int | None) -> list[socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        namespace = os.open(f"/proc/{init_pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            helper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_HELPER), str(uid or 0), *wishes],
                stdin=namespace,
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE,
                env={},
                cwd="/",
            )
        finally:
            os.close(namespace)
        theirs.close()
        try:
            _, said = helper.communicate(timeout=_ENTER_SECONDS)
        except subprocess.TimeoutExpired:
            helper.kill()
            helper.communicate()
            raise NoWayIn("The helper for a sandbox's network did not finish.") from None
        if helper.returncode != 0:
            tail = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise NoWayIn(f"A sandbox's network could not be entered: {tail[:200]}")
        ours.settimeout(_ENTER_SECONDS)
        _, numbers, _, _ = socket.recv_fds(ours, 1, len(wishes))
    sockets = [socket.socket(fileno=number) for number in numbers]
    if len(sockets) != len(wishes):
        for one in sockets:
            one.close()
        raise NoWayIn("The helper for a sandbox's network sent too few sockets.")
    return sockets
