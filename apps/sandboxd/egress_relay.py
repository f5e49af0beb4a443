"""Carry the bytes of one allowed connection, both ways and counted."""

from __future__ import annotations

import selectors
import socket
from contextlib import suppress
from typing import Final, Protocol

_CHUNK: Final = 64 * 1024


class Meter(Protocol):
    """Who counts what passes, and says when it is over."""

    def spend(self, size: int) -> bool:
        """Count bytes that are about to pass; tell whether they may."""

    def over(self) -> bool:
        """Tell whether nothing may pass any more."""

    def stop_fd(self) -> int:
        """Return the descriptor that becomes readable when it is over."""


class Relay:
    """Carry bytes both ways until both ends have said all, or the call's budget is spent."""

    def __init__(
        self, meter: Meter, inside: socket.socket, outside: socket.socket, first: bytes
    ) -> None:
        self._meter = meter
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
        verdict = "allowed" if self._meter.spend(self._moved[outside]) else "too_much"
        # Either end may break off; what had passed by then is what is told.
        with suppress(OSError), selectors.DefaultSelector() as selector:
            selector.register(self._meter.stop_fd(), selectors.EVENT_READ, None)
            while verdict == "allowed" and not self._meter.over() and self._pending():
                self._watch(selector)
                for key, events in selector.select():
                    end = key.fileobj
                    if isinstance(end, socket.socket) and not self._move(end, events):
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
            if not self._meter.spend(len(chunk)):
                return False
            self._moved[other] += len(chunk)
            self._waiting[other] += chunk
        return True

    def _say_end(self, one: socket.socket) -> None:
        """Pass on that the other end has said all, once it has been delivered."""
        if not self._open[self._ends[one]] and not self._waiting[one]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_WR)
