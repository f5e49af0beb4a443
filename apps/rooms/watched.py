"""What does a hub know of one room that somebody watches?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import structlog

from apps.rooms.previews import MAX_OPEN
from apps.rooms.relay import encode
from apps.rooms.viewers import Viewer
from apps.rooms.writing import Writing

log = structlog.get_logger(__name__)


class Watched:
    """One room: its viewers, how far it was read, and its open previews."""

    def __init__(self, room_id: str) -> None:
        self.room_id = room_id
        self.viewers: set[Viewer] = set()
        self.position = 0
        self.revision = 0
        # Notes for the room's one reader: look at all, look for events, ask who takes part,
        # read the previews anew.
        self.bell = asyncio.Event()
        self.behind = False
        self.unchecked = False
        self.rebuilding = False
        self.rebuild_again = False
        self.opening: asyncio.Task[None] | None = None
        self.pump: asyncio.Task[None] | None = None
        # Who is online anywhere; which members of ours were announced, and when last seen.
        self.online: set[int] = set()
        self.announced: set[int] = set()
        self.announced_at = float("-inf")
        self._last_seen: dict[int, float] = {}
        self._writings: dict[str, Writing] = {}
        # Closed ones, so that an older reading of the store cannot bring them back.
        self._over: dict[str, None] = {}

    @property
    def writings(self) -> Mapping[str, Writing]:
        """The previews that are open."""
        return self._writings

    def look(self, *, behind: bool = False, unchecked: bool = False) -> None:
        """Wake the reader, with a note of what to look at."""
        self.behind = self.behind or behind
        self.unchecked = self.unchecked or unchecked
        self.bell.set()

    def learn_revision(self, revision: int) -> None:
        """Take over a newer revision of the roster: from now on viewers wait for their check."""
        if revision > self.revision:
            self.revision = revision
            self.look(unchecked=True)

    def hand_out(self, events: list[dict[str, Any]]) -> None:
        """Give events, already in order, to every viewer."""
        for event in events:
            if event["position"] <= self.position:
                continue
            self.position = event["position"]
            text = encode(event)
            for viewer in self.viewers:
                viewer.offer(self.position, text)
            if event["kind"] == "run.finished":
                # A worker that died in the middle never closed its previews.
                run = str(event["data"].get("run"))
                for stream in [s for s, one in self._writings.items() if one.run == run]:
                    self._drop(stream, _dropped(stream), over=True)

    def take_frame(self, frame: dict[str, Any]) -> bool:
        """Take over a passing message; False says that a preview has to be read anew."""
        kind, stream = frame.get("type"), frame.get("stream")
        if kind == "presence" and isinstance(frame.get("online"), list):
            self.now_online({user for user in frame["online"] if isinstance(user, int)})
        elif not isinstance(stream, str) or not stream:
            log.warning("unknown_frame", room=self.room_id, kind=str(kind)[:40])
        elif kind in ("stream.open", "stream.text"):
            # Said just now, so it is open: a step that is repeated uses its name again.
            self._over.pop(stream, None)
            self._take_whole(stream, frame)
        elif stream in self._over:
            return True
        elif kind == "stream.delta":
            writing = self._writings.get(stream)
            if writing is None or not writing.advance(frame):
                return False
            self._touch(stream, writing)
        elif kind == "stream.close":
            said = {key: value for key, value in frame.items() if key != "revision"}
            self._drop(stream, said, over=True)
        return True

    def take_previews(self, frames: list[dict[str, Any]], *, read_at: float) -> None:
        """Compare with what the store held at `read_at`; what came since is newer than that."""
        there = {frame["stream"] for frame in frames}
        for frame in frames:
            stream = frame["stream"]
            known = self._writings.get(stream)
            if stream not in self._over and (
                known is None or len(known.text) <= frame["length"] or known.heard_at < read_at
            ):
                self._take_whole(stream, frame)
        for stream, writing in list(self._writings.items()):
            if stream not in there and writing.heard_at < read_at:
                self._drop(stream, _dropped(stream))

    def silent(self, seconds: float) -> bool:
        """Tell whether a preview has not been heard of for that long."""
        before = time.monotonic() - seconds
        return any(writing.heard_at < before for writing in self._writings.values())

    def members_here(self, grace: float) -> set[int]:
        """Return our members in the room; who has just gone may only be loading the page again."""
        now = time.monotonic()
        for viewer in self.viewers:
            if viewer.begun:
                self._last_seen[viewer.user_id] = now
        for user_id, seen in list(self._last_seen.items()):
            if now - seen > grace:
                del self._last_seen[user_id]
        return set(self._last_seen)

    def now_online(self, online: set[int]) -> None:
        """Take over who is in the room, and tell the viewers if that is news."""
        if online != self.online:
            self.online = online
            for viewer in self.viewers:
                viewer.presence_changed()

    def _take_whole(self, stream: str, frame: dict[str, Any]) -> None:
        writing = self._writings.get(stream)
        if writing is not None:
            if not writing.replace(frame):
                for viewer in self.viewers:
                    viewer.forget(stream)
        elif len(self._writings) < MAX_OPEN:
            writing = self._writings[stream] = Writing(frame)
        else:
            log.warning("too_many_previews", room=self.room_id)
            return
        self._touch(stream, writing)

    def _touch(self, stream: str, writing: Writing) -> None:
        writing.heard_at = time.monotonic()
        for viewer in self.viewers:
            viewer.touch(stream)

    def _drop(self, stream: str, close: dict[str, Any], *, over: bool = False) -> None:
        if over:
            self._over[stream] = None
            while len(self._over) > 4 * MAX_OPEN:
                del self._over[next(iter(self._over))]
        if self._writings.pop(stream, None) is not None:
            text = encode(close)
            for viewer in self.viewers:
                viewer.drop(stream, text)


def _dropped(stream: str) -> dict[str, Any]:
    return {"type": "stream.close", "stream": stream, "outcome": "dropped"}
