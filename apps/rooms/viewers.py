"""What is one open socket still owed? Bounded facts in order, and the latest of everything else.

A viewer never holds a backlog of frames: of each preview it only remembers how much it has been
sent, so however slow it is, it gets one combined delta. Durable events do queue, up to a bound;
past it the viewer is told to come back and resume from its position. Nothing is dropped in silence.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from apps.core.metrics import SOCKETS_ENDED, count_now
from apps.rooms.relay import encode
from apps.rooms.writing import UNSEEN, Seen, Writing

MAX_EVENTS = 500
MAX_CHARACTERS = 4_000_000
_PONG = encode({"type": "pong"})


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a socket is closed from our side."""

    code: int
    reason: str


BAD_MESSAGE = Ending(4400, "That message is not understood here.")
NOT_SIGNED_IN = Ending(4401, "Sign in first.")
NOT_HERE = Ending(4403, "You do not take part in this room.")
RESUME = Ending(4008, "Connect again and resume from your position.")
TOO_MANY = Ending(4429, "Too many sockets or messages.")
RESTARTING = Ending(4503, "This part is restarting. Connect again.")


class CannotWatch(Exception):
    """This process does not take the socket; the ending says why."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.reason)
        self.ending = ending


class WatchedRoom(Protocol):
    """What a viewer looks at."""

    revision: int
    online: set[int]

    @property
    def writings(self) -> Mapping[str, Writing]:
        """The previews that are open."""


class Viewer:
    """One socket in one room, as the hub sees it. Everything happens on the event loop."""

    def __init__(self, *, user_id: int, room: WatchedRoom) -> None:
        loop = asyncio.get_running_loop()
        self.user_id = user_id
        self.ended: asyncio.Future[Ending] = loop.create_future()
        self.blocked_since: float | None = None
        self.revision = -1
        self.begun = False
        self._room = room
        self._wake = asyncio.Event()
        self._position = 0
        self._events: deque[tuple[int, str]] = deque()
        self._characters = 0
        self._seen: dict[str, Seen] = {}
        # An ordered set: the one that waited longest is served first.
        self._stale: dict[str, None] = {}
        self._closes: deque[str] = deque()
        self._presence_is_new = False
        self._pong_is_due = False

    # --- what the hub says

    def offer(self, position: int, text: str) -> None:
        """Queue a durable event; past the bound, end with the advice to resume."""
        # The greeting may have been read before the hub itself came this far.
        if self.ended.done() or position <= self._position:
            return
        self._events.append((position, text))
        self._characters += len(text)
        if len(self._events) > MAX_EVENTS or self._characters > MAX_CHARACTERS:
            self._events.clear()
            self.end(RESUME)
        self._wake.set()

    def touch(self, stream: str) -> None:
        """A preview has something new."""
        self._stale[stream] = None
        self._wake.set()

    def drop(self, stream: str, close: str) -> None:
        """A preview has ended; say so if this viewer has seen any of it."""
        self._stale.pop(stream, None)
        if self._seen.pop(stream, None) is not None:
            self._closes.append(close)
            if len(self._closes) > MAX_EVENTS:
                self.end(RESUME)
            self._wake.set()

    def forget(self, stream: str) -> None:
        """What this viewer has of a preview is worth nothing any more."""
        if stream in self._seen:
            self._seen[stream] = UNSEEN

    def presence_changed(self) -> None:
        """Someone came or went."""
        self._presence_is_new = True
        self._wake.set()

    def checked(self, revision: int) -> None:
        """This member was found to take part at that revision of the roster."""
        if self.begun and revision > self.revision:
            self.revision = revision
            self._wake.set()

    def end(self, ending: Ending) -> None:
        """Close this socket, for a reason; the first one holds."""
        if not self.ended.done():
            self.ended.set_result(ending)
            count_now(SOCKETS_ENDED, code=str(ending.code))

    # --- what the socket says

    def was_sent(self, seen: Mapping[str, Seen]) -> None:
        """A snapshot with this much of the previews is on its way."""
        self._seen = dict(seen)

    def begin(self, *, position: int, revision: int) -> None:
        """Start after a position that the client holds."""
        self._position = position
        while self._events and self._events[0][0] <= position:
            self._characters -= len(self._events.popleft()[1])
        self._stale = dict.fromkeys(self._room.writings)
        self.revision = revision
        self.begun = True
        self._wake.set()

    def ask_text(self, stream: str) -> None:
        """The client lost track of a preview and wants all of it."""
        if stream in self._room.writings:
            self._seen[stream] = UNSEEN
            self.touch(stream)
            return
        # It may have ended while the question travelled.
        self._seen[stream] = UNSEEN
        self.drop(stream, encode({"type": "stream.close", "stream": stream, "outcome": "dropped"}))

    def ask_pong(self) -> None:
        """The client wants a sign of life. Many questions in a row get one answer."""
        self._pong_is_due = True
        self._wake.set()

    async def next(self) -> str:
        """Wait for the next message that this viewer may and should get."""
        while True:
            message = self._take()
            if message is not None:
                return message
            self._wake.clear()
            await self._wake.wait()

    def _take(self) -> str | None:
        # Behind the roster, nothing passes until the member has been checked again.
        if self.ended.done() or self.revision < self._room.revision:
            return None
        if self._events:
            text = self._events.popleft()[1]
            self._characters -= len(text)
            return text
        if self._closes:
            return self._closes.popleft()
        while self._stale:
            stream = next(iter(self._stale))
            del self._stale[stream]
            writing = self._room.writings.get(stream)
            if writing is None:
                continue
            message = writing.since(self._seen.get(stream, UNSEEN))
            self._seen[stream] = writing.now
            if message is not None:
                return message
        if self._presence_is_new:
            self._presence_is_new = False
            return encode({"type": "presence", "online": sorted(self._room.online)})
        if self._pong_is_due:
            self._pong_is_due = False
            return _PONG
        return None
