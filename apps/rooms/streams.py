"""How does a worker show a text to the room while it is still being written?

A writer belongs to one text of one run. The turn only hands over what is new; a thread of the
writer's own talks to Redis, so a slow or absent store never holds the turn up. What is shown is
passing: the durable result is an event or a version.
"""

from __future__ import annotations

import hashlib
import threading
import time
from types import TracebackType
from typing import Any, Literal

import redis
import structlog

from apps.core.metrics import STREAM_DROPS, count_now
from apps.rooms.previews import MAX_TEXT, Overtaken, Shelf

log = structlog.get_logger(__name__)

Outcome = Literal["saved", "dropped", "said"]

INTERVAL = 0.03
"""At least this many seconds lie between two frames of one stream."""
_BEAT = 15.0
_SILENCE = 600.0
_RETRY = 1.0
_CLOSE_WAIT = 1.0
_CLOSE_RETRIES = 30.0


class StreamWriter:
    """Shows one growing text to a room. Used by one turn; safe to close twice."""

    def __init__(
        self,
        *,
        room_id: Any,
        stream: str,
        of: Literal["say", "artifact", "output"],
        run: Any,
        agent: dict[str, Any],
        member: dict[str, Any],
        revision: int,
    ) -> None:
        self._about = {
            "stream": stream,
            "of": of,
            "run": str(run),
            "agent": agent,
            "member": member,
        }
        self._room_id = str(room_id)
        self._stream = stream
        self._revision = revision
        self._shelf = Shelf(self._room_id, stream)

        # Shared between the turn and the thread, under the condition's lock.
        self._changed = threading.Condition()
        self._pending: list[str] = []
        self._fed = 0
        self._meta: dict[str, Any] = {}
        self._meta_is_new = False
        self._end: dict[str, Any] | None = None
        self._ended_at = 0.0
        self._fed_at = time.monotonic()
        self._thread: threading.Thread | None = None

        # The thread's own: what has been taken over, and how much of it Redis holds.
        self._pieces: list[str] = []
        self._length = 0
        self._bytes = 0
        self._hash = hashlib.sha256()
        self._shown = 0
        self._shown_bytes = 0
        self._whole = True
        self._opening = True

    def __enter__(self) -> StreamWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drop the stream unless it was closed."""
        self.close("dropped")

    @property
    def closed(self) -> bool:
        """Whether nothing more will be shown: closed, or grown past the bound."""
        with self._changed:
            return self._end is not None

    def open(self, meta: dict[str, Any] | None = None) -> None:
        """Tell the room that a text begins."""
        with self._changed:
            if self._thread is not None:
                raise RuntimeError("This stream is open already.")
            self._meta = dict(meta or {})
            self._thread = threading.Thread(
                target=self._work, name=f"stream-{self._stream[:20]}", daemon=True
            )
            self._thread.start()

    def feed(self, delta: str, meta: dict[str, Any] | None = None) -> None:
        """Add what was written since the last call; past the bound the stream is dropped."""
        if not delta.isascii():
            # A half of a surrogate pair cannot travel as UTF-8.
            delta = delta.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        with self._changed:
            if self._thread is None:
                raise RuntimeError("Open the stream first.")
            if self._end is not None:
                return
            self._fed_at = time.monotonic()
            if meta is not None and {**self._meta, **meta} != self._meta:
                self._meta = {**self._meta, **meta}
                self._meta_is_new = True
            if self._fed + len(delta) > MAX_TEXT:
                self._finish({"outcome": "dropped", "reason": "too_long"})
                return
            if delta:
                self._fed += len(delta)
                self._pending.append(delta)
            self._changed.notify()

    def close(self, outcome: Outcome, artifact: Any = None, version: int | None = None) -> None:
        """Show what is left, tell the room how it ended, and wait at most a second for that."""
        end: dict[str, Any] = {"outcome": outcome}
        if artifact is not None:
            end["artifact"] = str(artifact)
        if version is not None:
            end["version"] = version
        with self._changed:
            thread = self._thread
            if self._end is None:
                self._finish(end)
        if thread is not None:
            thread.join(_CLOSE_WAIT)

    def _finish(self, end: dict[str, Any]) -> None:
        if "reason" in end:
            count_now(STREAM_DROPS, reason=end["reason"])
        self._end = end
        self._ended_at = time.monotonic()
        self._changed.notify()

    # --- the thread

    def _work(self) -> None:
        failures = 0
        while True:
            end, meta, meta_is_new = self._take()
            started = time.monotonic()
            try:
                self._show(meta, meta_is_new)
                if end is not None:
                    self._shelf.remove(frame=self._frame("stream.close", end))
                    return
            except Overtaken:
                log.info("stream_overtaken", room=self._room_id, stream=self._stream)
                with self._changed:
                    self._finish({"outcome": "dropped", "reason": "overtaken"})
                return
            except redis.RedisError as gone:
                if failures == 0:
                    log.warning(
                        "stream_not_shown",
                        room=self._room_id,
                        stream=self._stream,
                        error=type(gone).__name__,
                    )
                failures += 1
                # What arrived is not known: the whole text goes out once the store is back.
                self._whole = True
                if end is not None and time.monotonic() - self._ended_at > _CLOSE_RETRIES:
                    # The keys expire by themselves and every hub then drops the stream.
                    count_now(STREAM_DROPS, reason="store_away")
                    return
                time.sleep(_RETRY)
                continue
            failures = 0
            self._rest(INTERVAL - (time.monotonic() - started))

    def _rest(self, seconds: float) -> None:
        """Keep the distance between two frames; nothing is kept back once the text has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._end is not None, timeout=max(0.0, seconds))

    def _take(self) -> tuple[dict[str, Any] | None, dict[str, Any], bool]:
        """Wait for something to show, or for the next sign of life, and take it over."""
        with self._changed:
            self._changed.wait_for(self._is_due, timeout=_BEAT)
            if self._end is None and time.monotonic() - self._fed_at > _SILENCE:
                # A turn that forgot its stream must not keep it alive for ever.
                self._finish({"outcome": "dropped", "reason": "silent"})
            taken, self._pending = self._pending, []
            meta_is_new, self._meta_is_new = self._meta_is_new, False
            end, meta = self._end, self._meta
        for piece in taken:
            raw = piece.encode()
            self._hash.update(raw)
            self._length += len(piece)
            self._bytes += len(raw)
        self._pieces.extend(taken)
        return end, meta, meta_is_new

    def _is_due(self) -> bool:
        return bool(self._pending or self._meta_is_new or self._end is not None or self._whole)

    def _show(self, meta: dict[str, Any], meta_is_new: bool) -> None:
        digest = self._hash.hexdigest()[:16]
        size = {"length": self._length, "digest": digest}
        head = {**self._about, "meta": meta, "revision": self._revision, **size}
        if not self._whole:
            delta = self._unshown()
            frame = None
            if delta or meta_is_new:
                said = {"base": self._shown, **size, "delta": delta}
                frame = self._frame("stream.delta", {**said, "meta": meta} if meta_is_new else said)
            self._whole = not self._shelf.append(
                held=self._shown_bytes, delta=delta, head=head, frame=frame
            )
        if self._whole:
            text = "".join(self._pieces)
            kind = {"type": "stream.text", "text": text} if text else {"type": "stream.open"}
            self._shelf.put(opening=self._opening, head=head, text=text, frame={**head, **kind})
            self._whole = self._opening = False
        self._shown, self._shown_bytes = self._length, self._bytes

    def _unshown(self) -> str:
        """Return what Redis does not hold yet; usually the last few pieces."""
        missing, tail = self._length - self._shown, []
        for piece in reversed(self._pieces):
            if missing <= 0:
                break
            tail.append(piece)
            missing -= len(piece)
        return "".join(reversed(tail))

    def _frame(self, kind: str, said: dict[str, Any]) -> dict[str, Any]:
        return {"type": kind, "stream": self._stream, "revision": self._revision, **said}
