"""What does Redis hold of a preview that is still being written, and who may rebuild it?

The whole text so far and a small head live under two keys that always change together, so a
viewer who joins in the middle, or a hub that missed a frame, rebuilds the present state from them.
A preview whose writer fell silent expires by itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import redis
import structlog

from apps.rooms import relay

log = structlog.get_logger(__name__)

MAX_TEXT = 200_000
"""A preview longer than this many code points is dropped; the saved version is not affected."""
MAX_OPEN = 64
"""A room shows at most this many previews at once."""
EXPIRY = 60
"""Seconds after which a preview whose writer says nothing any more is gone."""

# Appends only to exactly the text that the writer believes is there. Returns 0 otherwise, and the
# writer puts the whole text anew: a store that restarted with less cannot mix two texts.
APPEND = """
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('STRLEN', KEYS[1]) ~= tonumber(ARGV[1]) then
  return 0
end
if ARGV[2] ~= '' then redis.call('APPEND', KEYS[1], ARGV[2]) end
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('SET', KEYS[2], ARGV[3], 'EX', ARGV[4])
redis.call('SADD', KEYS[3], ARGV[5])
redis.call('EXPIRE', KEYS[3], ARGV[4])
if ARGV[7] ~= '' then redis.call('PUBLISH', ARGV[6], ARGV[7]) end
return 1
"""


def digest_of(text: str) -> str:
    """Return the short digest that viewers compare their text with."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def text_key(room_id: str, stream: str) -> str:
    """Return the key of a preview's whole text."""
    return f"kaizen:stream:{room_id}:{stream}"


def head_key(room_id: str, stream: str) -> str:
    """Return the key of what is said about a preview."""
    return f"kaizen:stream:{room_id}:{stream}:head"


def roster_key(room_id: str) -> str:
    """Return the key of the set of previews that are open in a room."""
    return f"kaizen:streams:{room_id}"


class Shelf:
    """One preview's place in Redis, for its only writer. Every method may raise RedisError."""

    def __init__(self, room_id: str, stream: str) -> None:
        self._room_id = room_id
        self._stream = stream
        self._keys = (text_key(room_id, stream), head_key(room_id, stream), roster_key(room_id))
        self._channel = relay.channel_of(room_id)
        self._append = relay.client().register_script(APPEND)

    def put(self, *, head: dict[str, Any], text: str, frame: dict[str, Any]) -> None:
        """Store the whole text and tell the room."""
        text_at, head_at, roster_at = self._keys
        with relay.client().pipeline(transaction=True) as pipe:
            pipe.set(text_at, text, ex=EXPIRY)
            pipe.set(head_at, relay.encode(head), ex=EXPIRY)
            pipe.sadd(roster_at, self._stream)
            pipe.expire(roster_at, EXPIRY)
            pipe.publish(self._channel, relay.encode(frame))
            pipe.execute()

    def append(
        self, *, held: int, delta: str, head: dict[str, Any], frame: dict[str, Any] | None
    ) -> bool:
        """Add to a text of exactly `held` bytes and tell the room; False if it is not there."""
        done = self._append(
            keys=list(self._keys),
            args=[
                held,
                delta,
                relay.encode(head),
                EXPIRY,
                self._stream,
                self._channel,
                "" if frame is None else relay.encode(frame),
            ],
        )
        return bool(done == 1)

    def remove(self, *, frame: dict[str, Any]) -> None:
        """Take the preview away and tell the room."""
        text_at, head_at, roster_at = self._keys
        with relay.client().pipeline(transaction=True) as pipe:
            pipe.delete(text_at, head_at)
            pipe.srem(roster_at, self._stream)
            pipe.publish(self._channel, relay.encode(frame))
            pipe.execute()


def whole_frame(stream: str, head: bytes | None, text: bytes | None) -> dict[str, Any] | None:
    """Build a `stream.text` frame from what Redis holds, or None where something is missing."""
    if head is None or text is None:
        return None
    try:
        said = json.loads(head)
        words = text.decode()
    except ValueError:
        log.warning("preview_unreadable", stream=stream[:80])
        return None
    # Length and digest are those of the text that is really here, whatever the head says.
    return {
        **said,
        "type": "stream.text",
        "text": words,
        "length": len(words),
        "digest": digest_of(words),
    }


def open_previews(room_id: str) -> list[dict[str, Any]]:
    """Return every open preview of a room as a `stream.text` frame, for a page that asks once."""
    try:
        streams = _names(relay.client().smembers(roster_key(room_id)))
        with relay.client().pipeline(transaction=True) as pipe:
            queue_reads(pipe, room_id, streams)
            return frames_from(streams, pipe.execute())
    except redis.RedisError as gone:
        # Nothing durable is missing: a page without previews is complete.
        log.warning("previews_not_read", room=room_id, error=type(gone).__name__)
        return []


def queue_reads(pipe: Any, room_id: str, streams: Iterable[str]) -> None:
    """Ask a pipeline (of either kind of client) for the heads and texts of previews."""
    for stream in streams:
        pipe.get(head_key(room_id, stream))
        pipe.get(text_key(room_id, stream))


def frames_from(streams: list[str], answers: list[Any]) -> list[dict[str, Any]]:
    """Turn a pipeline's answers into `stream.text` frames, leaving out what has gone."""
    pairs = zip(streams, answers[::2], answers[1::2], strict=True)
    frames = (whole_frame(stream, head, text) for stream, head, text in pairs)
    return [frame for frame in frames if frame is not None]


def _names(members: Any) -> list[str]:
    return sorted(member.decode() for member in members)[:MAX_OPEN]
