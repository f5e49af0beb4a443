"""Let one call through to what its policy names, and to nothing else.

The sandbox keeps a network of its own with nothing but its loopback. On that loopback the
supervisor itself listens, by sockets that a helper bound there before the program ran: a proxy
that understands CONNECT, a name server that makes addresses up, and the ports that those addresses
are reached at. Nothing of this runs inside the sandbox, so there is nothing in it to take over.
"""

from __future__ import annotations

import logging
import os
import select
import selectors
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from apps.domain.egress import Crossing, Denied, Network, read_connect
from apps.sandboxd.egress_names import MAX_QUESTION, Names
from apps.sandboxd.egress_relay import Relay
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

_CLOSE_SECONDS: Final = 1.0
# A program that only knocks costs it time, not us.
_KNOCKS_A_SECOND: Final = 500


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
        return self.egress.over()


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
    _open: dict[threading.Thread, Crossing | None] = field(default_factory=dict)
    _bytes: int = 0
    _stop: tuple[int, int] = (-1, -1)

    def __post_init__(self) -> None:
        self._names = Names(self.network)
        self._stop = os.pipe2(os.O_CLOEXEC)
        door = threading.Thread(target=self._serve, daemon=True, name="egress")
        self._threads.add(door)
        door.start()

    def crossings(self) -> tuple[Crossing, ...]:
        """Return what was tried so far; of very many, what was reached and the first others."""
        with self._lock:
            return tuple(self._crossings)

    def take(self) -> tuple[Crossing, ...]:
        """Return what was tried since this was last asked, and connections that are still open.

        A connection that stays open is told once as such, and again with its bytes when it ends.
        """
        with self._lock:
            found, self._crossings = self._crossings, []
            found += [one for one in self._open.values() if one is not None]
            self._open = dict.fromkeys(self._open)
        found.sort(key=lambda one: not one.address)
        return tuple(found[:MAX_CROSSINGS])

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
            second, knocks = time.monotonic(), 0
            while not self.closed:
                for key, _ in selector.select():
                    knocks += 1
                    if key.fileobj is self.lookups:
                        self._look_up()
                    elif isinstance(key.fileobj, socket.socket):
                        self._accept(key.fileobj)
                if (passed := time.monotonic() - second) >= 1:
                    second, knocks = time.monotonic(), 0
                elif knocks >= _KNOCKS_A_SECOND:
                    select.select([self._stop[0]], [], [], 1 - passed)

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
                # Started before anybody can wait for its end; one that cannot be is none.
                try:
                    thread.start()
                    self._threads.add(thread)
                except RuntimeError as problem:
                    _log.warning("A connection of a sandbox found no thread: %s", problem)
                    full = True
        if full:
            inside.close()
            self._note(Crossing("", 0, "", "too_many_connections"))

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
        # Told however it ends: who hangs up at once has reached the other side all the same.
        verdict, received, sent = "allowed", 0, 0
        with self._lock:
            self._open[threading.current_thread()] = Crossing(name, port, address, verdict)
        try:
            with outside:
                if proxied:
                    inside.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                verdict, received, sent = Relay(self, inside, outside, rest).run()
        finally:
            with self._lock:
                del self._open[threading.current_thread()]
            self._note(Crossing(name, port, address, verdict, received, sent))

    def _meant(self, inside: socket.socket) -> tuple[str, int]:
        address, port = inside.getsockname()[:2]
        # An address that no name was looked up for stands for none, and none is refused.
        return self._names.meant(address) or "", port

    def spend(self, size: int) -> bool:
        """Count bytes that are about to pass; tell whether the call may still send and receive."""
        with self._lock:
            self._bytes += size
            return self._bytes <= MAX_BYTES

    def over(self) -> bool:
        """Tell whether the call is over."""
        return self.closed

    def stop_fd(self) -> int:
        """Return the descriptor that becomes readable when the call is over."""
        return self._stop[0]

    def _note(self, crossing: Crossing) -> None:
        with self._lock:
            if len(self._crossings) >= MAX_CROSSINGS:
                # What was reached is told before what was refused, however much that was.
                refused = [one for one in self._crossings if not one.address]
                if not crossing.address or not refused:
                    return
                self._crossings.remove(refused[-1])
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
        f"Content-Length: {len(body)}\r\nX-Kaizen-Egress: {denied.code}\r\n"
        "Connection: close\r\n\r\n"
    )
    inside.settimeout(2)
    with suppress(OSError):
        inside.sendall(head.encode("ascii") + body)
        inside.shutdown(socket.SHUT_WR)
        # What is still on its way would otherwise reset the connection before this is read.
        for _ in range(16):
            if not inside.recv(MAX_HEAD):
                break
