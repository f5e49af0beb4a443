"""Let one call through to what its policy names, and to nothing else.

The sandbox keeps a network of its own with nothing but its loopback. On that loopback the
supervisor itself listens, by sockets that a helper bound there before the program ran: a proxy
that understands CONNECT, a name server that makes addresses up, and the ports that those addresses
are reached at. Nothing of this runs inside the sandbox, so there is nothing in it to take over.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from apps.domain.egress import HTTPS, Crossing, Denied, Network, NetworkKind, read_connect
from apps.sandboxd.egress_names import MAX_QUESTION, Names
from apps.sandboxd.egress_route import Routes
from apps.sandboxd.jobs import MAX_CROSSINGS
from apps.sandboxd.limits import MIB

_log = logging.getLogger(__name__)

PROXY_PORT: Final = 3128
NAMES_PORT: Final = 53
PROXY: Final = f"http://127.0.0.1:{PROXY_PORT}"
MAX_CONNECTIONS: Final = 16
MAX_BYTES: Final = 64 * MIB
MAX_HEAD: Final = 8 * 1024
HEAD_SECONDS: Final = 10.0

_MAX_LISTENED: Final = 16
_ENTER_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 1.0
_CHUNK: Final = 64 * 1024
_HELPER: Final = Path(__file__).with_name("egress_enter.py")


class NoWayIn(RuntimeError):
    """The sockets inside a sandbox could not be made; the sentence is for the operator."""


@dataclass(slots=True)
class _Pace:
    """One connection's patience: until the call is over."""

    egress: Egress
    until: float = float("inf")

    def left(self) -> float:
        """Return the seconds that are left, at most."""
        return max(0.0, self.until - time.monotonic())

    def gone(self) -> bool:
        """Tell whether the call is over."""
        return self.egress.closed


@dataclass(slots=True)
class Egress:
    """The way out of one call, from before its program runs until all of it is dead."""

    network: Network
    routes: Routes
    proxy: socket.socket
    lookups: socket.socket
    direct: tuple[socket.socket, ...]
    closed: bool = False
    _names: Names = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _crossings: list[Crossing] = field(default_factory=list)
    _threads: set[threading.Thread] = field(default_factory=set)
    _bytes: int = 0
    _stop: tuple[int, int] = (-1, -1)

    def __post_init__(self) -> None:
        self._names = Names(self.network)
        self._stop = os.pipe2(os.O_CLOEXEC)
        door = threading.Thread(target=self._serve, daemon=True, name="egress")
        self._threads.add(door)
        door.start()

    def crossings(self) -> tuple[Crossing, ...]:
        """Return what was tried so far, allowed or not, the first ones of very many."""
        with self._lock:
            return tuple(self._crossings)

    def close(self) -> None:
        """End every connection and let go of the sandbox's network."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            threads = list(self._threads)
        os.close(self._stop[1])
        until = time.monotonic() + _CLOSE_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        for one in (self.proxy, self.lookups, *self.direct):
            one.close()
        os.close(self._stop[0])

    # --- listening

    def _serve(self) -> None:
        listening = (self.proxy, self.lookups, *self.direct)
        with selectors.DefaultSelector() as selector:
            selector.register(self._stop[0], selectors.EVENT_READ)
            for one in listening:
                one.setblocking(False)
                selector.register(one, selectors.EVENT_READ)
            while not self.closed:
                for key, _ in selector.select():
                    if key.fileobj is self.lookups:
                        self._look_up()
                    elif isinstance(key.fileobj, socket.socket):
                        self._accept(key.fileobj)

    def _accept(self, listening: socket.socket) -> None:
        try:
            inside, _ = listening.accept()
        except OSError:
            return  # it left again before it was let in
        thread = threading.Thread(
            target=self._converse, args=(inside, listening is self.proxy), daemon=True
        )
        with self._lock:
            # One of the threads is the door's own.
            full = len(self._threads) > MAX_CONNECTIONS or self.closed
            if not full:
                self._threads.add(thread)
        if full:
            inside.close()
            self._note(Crossing("", 0, "", "too_many_connections"))
            return
        thread.start()

    def _look_up(self) -> None:
        try:
            question, whence = self.lookups.recvfrom(MAX_QUESTION + 1)
        except OSError:
            return
        answer, denied, name = self._names.answer(question)
        if denied is not None:
            self._note(Crossing(name[:253], 0, "", denied.code))
        if answer:
            with suppress(OSError):
                self.lookups.sendto(answer, whence)

    # --- one connection

    def _converse(self, inside: socket.socket, proxied: bool) -> None:
        try:
            with inside:
                self._carry(inside, proxied)
        except OSError as problem:
            _log.debug("A connection of a sandbox broke: %s", problem)
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _carry(self, inside: socket.socket, proxied: bool) -> None:
        host, port, rest = "", 0, b""
        try:
            if proxied:
                head, rest = _head(inside, self)
                host, port = read_connect(head)
            else:
                host, port = self._meant(inside)
            name = self.network.check(host, port)
            pace = _Pace(self)
            outside, address = self.routes.connect(self.routes.find(name, port, pace), pace)
        except Denied as denied:
            self._note(Crossing(host[:253], port, "", denied.code))
            if proxied:
                _refuse(inside, denied)
            return
        with outside:
            if proxied:
                inside.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            verdict, received, sent = _Relay(self, inside, outside, rest).run()
        self._note(Crossing(name, port, address, verdict, received, sent))

    def _meant(self, inside: socket.socket) -> tuple[str, int]:
        address, port = inside.getsockname()[:2]
        host = self._names.meant(address)
        if host is None:
            raise Denied("bad_host", "No name was looked up for that address.")
        return host, port

    def spend(self, size: int) -> bool:
        """Count bytes that are about to pass; tell whether the call may still send and receive."""
        with self._lock:
            self._bytes += size
            return self._bytes <= MAX_BYTES

    def stop_fd(self) -> int:
        """Return the descriptor that becomes readable when the call is over."""
        return self._stop[0]

    def _note(self, crossing: Crossing) -> None:
        with self._lock:
            if len(self._crossings) < MAX_CROSSINGS:
                self._crossings.append(crossing)


def _head(inside: socket.socket, egress: Egress) -> tuple[bytes, bytes]:
    """Read the head of a request; return it and what came after it."""
    until = time.monotonic() + HEAD_SECONDS
    data = b""
    inside.setblocking(False)
    with selectors.DefaultSelector() as selector:
        selector.register(inside, selectors.EVENT_READ)
        selector.register(egress.stop_fd(), selectors.EVENT_READ)
        while b"\r\n\r\n" not in data:
            if len(data) > MAX_HEAD:
                raise Denied("bad_request", f"A request's head has at most {MAX_HEAD} bytes.")
            left = until - time.monotonic()
            if left <= 0 or not selector.select(left) or egress.closed:
                raise Denied("slow_request", "The request's head did not arrive in time.")
            # Plain recv: descriptors that a program sends along are dropped by the kernel.
            chunk = inside.recv(MAX_HEAD)
            if not chunk:
                raise Denied("bad_request", "The request ended within its head.")
            data += chunk
    head, _, rest = data.partition(b"\r\n\r\n")
    if len(head) > MAX_HEAD:
        raise Denied("bad_request", f"A request's head has at most {MAX_HEAD} bytes.")
    return head, rest


def _refuse(inside: socket.socket, denied: Denied) -> None:
    body = f"{denied}\n".encode()
    head = (
        "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nX-Kaizen-Egress: {denied.code}\r\nConnection: close\r\n\r\n"
    )
    inside.settimeout(2)
    with suppress(OSError):
        inside.sendall(head.encode("ascii") + body)
        inside.shutdown(socket.SHUT_WR)


class _Relay:
    """Carry bytes both ways until both ends have said all, or the call's budget is spent."""

    def __init__(
        self, egress: Egress, inside: socket.socket, outside: socket.socket, first: bytes
    ) -> None:
        self._egress = egress
        self._ends = {inside: outside, outside: inside}
        self._outside = outside
        self._waiting = {inside: bytearray(), outside: bytearray(first)}
        self._open = {inside: True, outside: True}
        self._moved = {inside: 0, outside: len(first)}

    def run(self) -> tuple[str, int, int]:
        """Return how it ended, and how many bytes came in and went out."""
        outside = self._outside
        inside = self._ends[outside]
        for one in self._ends:
            one.setblocking(False)
        verdict = "allowed" if self._egress.spend(self._moved[outside]) else "too_much"
        with selectors.DefaultSelector() as selector:
            selector.register(self._egress.stop_fd(), selectors.EVENT_READ, None)
            while verdict == "allowed" and not self._egress.closed and self._pending():
                self._watch(selector)
                for key, events in selector.select():
                    if isinstance(key.fileobj, socket.socket) and not self._move(
                        key.fileobj, events
                    ):
                        verdict = "too_much"
        return verdict, self._moved[inside], self._moved[outside]

    def _pending(self) -> bool:
        return any(self._open.values()) or any(self._waiting.values())

    def _watch(self, selector: selectors.BaseSelector) -> None:
        """Read from an end only while the other takes what came."""
        for one, other in self._ends.items():
            events = 0
            if self._open[one] and len(self._waiting[other]) < _CHUNK:
                events |= selectors.EVENT_READ
            if self._waiting[one]:
                events |= selectors.EVENT_WRITE
            known = selector.get_map().get(one)
            if known is not None and not events:
                selector.unregister(one)
            elif known is None and events:
                selector.register(one, events)
            elif known is not None and known.events != events:
                selector.modify(one, events)

    def _move(self, one: socket.socket, events: int) -> bool:
        if events & selectors.EVENT_WRITE:
            with suppress(BlockingIOError):
                del self._waiting[one][: one.send(self._waiting[one])]
            self._say_end(one)
        if events & selectors.EVENT_READ:
            try:
                chunk = one.recv(_CHUNK)
            except BlockingIOError:
                return True
            other = self._ends[one]
            if not chunk:
                self._open[one] = False
                self._say_end(other)
                return True
            if not self._egress.spend(len(chunk)):
                return False
            self._moved[other] += len(chunk)
            self._waiting[other] += chunk
        return True

    def _say_end(self, one: socket.socket) -> None:
        """Pass on that the other end has said all, once it has been delivered."""
        if not self._open[self._ends[one]] and not self._waiting[one]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_WR)


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
                stdout=theirs,
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
