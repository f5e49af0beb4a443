"""Find the way out for one connection: one lookup, every answer judged, the judged address used.

Names are looked up with the resolver of the deployment. It cannot be interrupted, so lookups run
in a bounded number of threads, and whoever waits for one gives up after a while.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

from apps.domain.egress import Address, AddressBlock, Denied, checked_addresses

LOOKUP_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 10.0
MAX_TRIED: Final = 4

_LOOKUPS_AT_ONCE: Final = 32
_LOOKUPS_WAITING: Final = 64
_STEP: Final = 0.05

Lookup = Callable[[str], Iterable[str]]


class Patience(Protocol):
    """How long somebody waits for a connection, and whether they still do."""

    def left(self) -> float:
        """Return the seconds that are left, at most."""

    def gone(self) -> bool:
        """Tell whether nobody waits any more."""


def system_lookup(host: str) -> Iterable[str]:
    """Return every address that the deployment's resolver gives for a name."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as problem:
        raise Denied("no_address", f"{host} has no address.") from problem
    return [str(answer[4][0]) for answer in found]


class Resolver:
    """Look names up in a bounded number of threads."""

    def __init__(self, lookup: Lookup = system_lookup) -> None:
        self._lookup = lookup
        self._pool = ThreadPoolExecutor(_LOOKUPS_AT_ONCE, thread_name_prefix="lookup")
        self._room = threading.BoundedSemaphore(_LOOKUPS_AT_ONCE + _LOOKUPS_WAITING)

    def addresses(self, host: str, patience: Patience) -> list[str]:
        """Return the answers for a name, or raise Denied."""
        if not self._room.acquire(blocking=False):
            raise Denied("lookup_busy", "Too many names are being looked up.")
        try:
            asked = self._pool.submit(lambda: list(self._lookup(host)))
        except RuntimeError as problem:
            # No thread is left; the room would otherwise be lost for good.
            self._room.release()
            raise Denied("lookup_busy", "Too many names are being looked up.") from problem
        asked.add_done_callback(lambda _: self._room.release())
        return self._awaited(host, asked, patience)

    def _awaited(self, host: str, asked: Future[list[str]], patience: Patience) -> list[str]:
        until = time.monotonic() + min(LOOKUP_SECONDS, patience.left())
        while True:
            try:
                return asked.result(_STEP)
            except TimeoutError:
                if time.monotonic() >= until or patience.gone():
                    asked.cancel()
                    raise Denied(
                        "lookup_timeout", f"{host} could not be looked up in time."
                    ) from None


@dataclass(frozen=True, slots=True)
class Route:
    """Where a connection goes: a name that the policy lets through, and its judged addresses."""

    host: str
    port: int
    addresses: tuple[Address, ...]


class Routes:
    """Everything that stands between a wish and a connection, apart from the call's own policy."""

    def __init__(self, resolver: Resolver, exempt: Sequence[AddressBlock] = ()) -> None:
        self._resolver = resolver
        self._exempt = tuple(exempt)

    def find(self, host: str, port: int, patience: Patience) -> Route:
        """Look a name up, once, and judge every answer; raise Denied."""
        answers = self._resolver.addresses(host, patience)
        return Route(host, port, checked_addresses(host, answers, self._exempt))

    def connect(self, route: Route, patience: Patience) -> tuple[socket.socket, str]:
        """Connect to one of the judged addresses and return it with the socket; raise Denied."""
        code, sentence = "unreachable", f"{route.host} could not be reached."
        for address in route.addresses[:MAX_TRIED]:
            family = socket.AF_INET if address.version == 4 else socket.AF_INET6
            try:
                link = socket.socket(family, socket.SOCK_STREAM)
            except OSError:
                continue  # this machine does not speak that family
            try:
                if _connected(link, (str(address), route.port), patience):
                    return link, str(address)
            except OSError:
                pass  # the next address may do
            link.close()
            if patience.gone() or patience.left() <= 0:
                code, sentence = "connect_timeout", f"{route.host} did not answer in time."
                break
        raise Denied(code, sentence)


def _connected(link: socket.socket, target: tuple[str, int], patience: Patience) -> bool:
    link.setblocking(False)
    started = link.connect_ex(target)
    if started not in (0, errno.EINPROGRESS):
        raise OSError(started, os.strerror(started))
    until = time.monotonic() + min(CONNECT_SECONDS, patience.left())
    with selectors.DefaultSelector() as selector:
        selector.register(link, selectors.EVENT_WRITE)
        while not selector.select(_STEP):
            if time.monotonic() >= until or patience.gone():
                return False
    failed = link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if failed:
        raise OSError(failed, os.strerror(failed))
    return True
