"""What may come over the connection to a model, and how does whoever has enough of it hang up?

The client library reads whatever it is sent: lines without an end, bodies that unpack to any size,
an error that never ends, and it follows a redirect with the whole conversation. Here is the bound.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

import httpx2
import openai

from apps.domain.tooling import MAX_ARGUMENT_CAP

MAX_EVENT = 2 * MAX_ARGUMENT_CAP
"""Bytes between two ends of events: a server may send all arguments of a call at once."""
MAX_REFUSAL = 64 * 1024
"""Bytes that are read of an answer that is none: its status says enough."""

_END_OF_EVENT = re.compile(rb"\n\n|\r\r|\r\n\r\n")
_CONNECTED = ("connect_tcp.complete", "start_tls.complete")


class Line:
    """One connection to a model: bounded where it is read, and ended from any thread."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self.ended = False

    def client(self, timeout: openai.Timeout) -> httpx2.Client:
        """Return a client that follows no redirect and hands on no more than is bounded."""
        return openai.DefaultHttpxClient(
            timeout=timeout,
            # Whoever is asked is the operator's to say: a conversation goes nowhere else.
            follow_redirects=False,
            event_hooks={"request": [self._watch], "response": [self._bound]},
        )

    def hang_up(self) -> None:
        """End the connection under whoever reads it, now or as soon as there is one."""
        self.ended = True
        if self._socket is not None:
            # Not closed: its number could be another connection's before the reader looks.
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _watch(self, request: httpx2.Request) -> None:
        request.extensions["trace"] = self._note

    def _note(self, event: str, info: dict[str, Any]) -> None:
        if event.endswith(_CONNECTED):
            self._socket = info["return_value"].get_extra_info("socket")
            if self.ended:
                self.hang_up()

    def _bound(self, response: httpx2.Response) -> None:
        coding = response.headers.pop("content-encoding", "identity")
        # Of a refusal that nobody can read the status is left.
        if response.is_success and coding.strip().lower() != "identity":
            response.close()
            raise httpx2.DecodingError(
                "The answer is compressed, which was not asked for.", request=response.request
            )
        response.stream = _Bounded(
            self, cast(httpx2.SyncByteStream, response.stream), whole=response.is_success
        )


class _Bounded(httpx2.SyncByteStream):
    """A body whose events are bounded; one that is no answer is read to its bound only."""

    def __init__(self, line: Line, stream: httpx2.SyncByteStream, *, whole: bool) -> None:
        self._line = line
        self._stream = stream
        self._whole = whole

    def __iter__(self) -> Iterator[bytes]:
        size, tail = 0, b""
        for block in self._stream:
            size += len(block)
            if self._line.ended:
                # What had arrived before may be much.
                raise httpx2.ReadError("Nobody listens any more.")
            if not self._whole and size > MAX_REFUSAL:
                return
            yield block
            tail += block
            for end in _END_OF_EVENT.finditer(tail):
                size = len(tail) - end.end()
            tail = tail[-3:]
            if size > MAX_EVENT:
                raise httpx2.RemoteProtocolError(f"An event has more than {MAX_EVENT:,} bytes.")

    def close(self) -> None:
        """Let go of the connection."""
        self._stream.close()
