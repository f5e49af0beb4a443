"""What does Redis hold of a preview that is still being written, and who may rebuild it?

The whole text so far and a small head live under two keys that always change together, so a
viewer who joins in the middle, or a hub that missed a frame, rebuilds the present state from them.
A preview whose writer fell silent expires by itself.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable
from typing import Any

import redis
import structlog
from redis.commands.core import Script

from apps.rooms import relay

log = structlog.get_logger(__name__)

MAX_TEXT = 200_000
"""A preview longer than this many code points is dropped; the saved version is not affected."""
MAX_OPEN = 64
"""A room shows at most this many previews at once."""
EXPIRY = 60
"""Seconds after which a preview whose writer says nothing any more is gone."""

# A step that a worker repeats after another one died names its preview the same. So each preview
# has one writer at a time: opening takes it over, and the overtaken writer is answered "overtaken".
_OWNED = """
local writer = redis.call('GET', KEYS[4])
if writer and writer ~= ARGV[1] and ARGV[2] ~= 'open' then return 'overtaken' end
"""
_KEEP = """
redis.call('SET', KEYS[2], ARGV[4], 'EX', ARGV[3])
redis.call('SET', KEYS[4], ARGV[1], 'EX', ARGV[3])
redis.call('SADD', KEYS[3], ARGV[5])
redis.call('EXPIRE', KEYS[3], ARGV[3])
if ARGV[7] ~= '' then redis.call('PUBLISH', ARGV[6], ARGV[7]) end
return 'done'
"""
PUT = f"""{_OWNED}
redis.call('SET', KEYS[1], ARGV[8], 'EX', ARGV[3])
{_KEEP}"""
# Appends only to exactly the text that the writer believes is there; else it puts the whole anew,
# so a store that came back with less can never mix two texts.
APPEND = f"""{_OWNED}
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('STRLEN', KEYS[1]) ~= tonumber(ARGV[9]) then
  return 'different'
end
if ARGV[8] ~= '' then redis.call('APPEND', KEYS[1], ARGV[8]) end
redis.call('EXPIRE', KEYS[1], ARGV[3])
{_KEEP}"""
REMOVE = f"""{_OWNED}
redis.call('DEL', KEYS[1], KEYS[2], KEYS[4])
redis.call('SREM', KEYS[3], ARGV[5])
redis.call('PUBLISH', ARGV[6], ARGV[7])
return 'done'
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


class Overtaken(Exception):
    """Another writer has taken this preview over; this one falls silent."""


class Shelf:
    """One preview's place in Redis, for its only writer. Every method may raise RedisError."""

    def __init__(self, room_id: str, stream: str) -> None:
        self._stream = stream
        self._writer = secrets.token_hex(8)
        text = text_key(room_id, stream)
        self._keys = [text, head_key(room_id, stream), roster_key(room_id), f"{text}:writer"]
        self._channel = relay.channel_of(room_id)
        client = relay.client()
        self._put = client.register_script(PUT)
        self._append = client.register_script(APPEND)
        self._remove = client.register_script(REMOVE)

    def put(self, *, opening: bool, head: dict[str, Any], text: str, frame: dict[str, Any]) -> None:
        """Store the whole text and tell the room; opening takes the place from whoever had it."""
        self._ask(self._put, "open" if opening else "", head, frame, text)

    def append(
        self, *, held: int, delta: str, head: dict[str, Any], frame: dict[str, Any] | None
    ) -> bool:
        """Add to a text of exactly `held` bytes and tell the room; False if it is not there."""
        return self._ask(self._append, "", head, frame, delta, held) == "done"

    def remove(self, *, frame: dict[str, Any]) -> None:
        """Take the preview away and tell the room."""
        self._ask(self._remove, "", {}, frame)

    def _ask(
        self,
        script: Script,
        mode: str,
        head: dict[str, Any],
        frame: dict[str, Any] | None,
        *more: Any,
    ) -> str:
        said = "" if frame is None else relay.encode(frame)
        place: list[Any] = [
            self._writer,
            mode,
            EXPIRY,
            relay.encode(head),
            self._stream,
            self._channel,
            said,
        ]
        answer: Any = script(keys=self._keys, args=[*place, *more])
        if answer == b"overtaken":
            raise Overtaken
        return str(answer.decode())


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
