"""What does a hub know of a preview, and what does a viewer that has seen this much still need?"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from apps.rooms.previews import MAX_TEXT
from apps.rooms.relay import encode


@dataclass(frozen=True, slots=True)
class Seen:
    """How much of a preview someone has: code points, and which state of its meta."""

    length: int
    meta: int


UNSEEN = Seen(-1, -1)
_ABOUT = ("stream", "of", "run", "agent", "member")


class Writing:
    """A preview that is still being written: the latest value, never a list of changes."""

    def __init__(self, frame: dict[str, Any]) -> None:
        """Start from a `stream.open` or `stream.text` frame."""
        self.about = {key: frame.get(key) for key in _ABOUT}
        self.run = str(frame.get("run"))
        self.heard_at = 0.0
        self.text = ""
        self._meta: dict[str, Any] = {}
        self._meta_state = 0
        self._made: dict[Seen, str | None] = {}
        self.replace(frame)

    @property
    def now(self) -> Seen:
        """The mark of someone who has everything."""
        return Seen(len(self.text), self._meta_state)

    def replace(self, frame: dict[str, Any]) -> bool:
        """Take over a whole text; False says that it is another one, not the same grown longer."""
        before, self.text = self.text, str(frame.get("text", ""))[:MAX_TEXT]
        self._hash = hashlib.sha256(self.text.encode())
        self._learn(frame.get("meta"))
        self._made.clear()
        return self.text.startswith(before)

    def advance(self, frame: dict[str, Any]) -> bool:
        """Take over a delta; False says that something is missing and the text must be read."""
        base, length, delta = frame.get("base"), frame.get("length"), frame.get("delta")
        if not isinstance(base, int) or not isinstance(length, int) or not isinstance(delta, str):
            return False
        known = len(self.text)
        if base > known or length != base + len(delta) or length > MAX_TEXT:
            return False
        if length >= known:
            # What was read from the store may already hold the first part of this delta.
            fresh = delta[known - base :]
            hashed = self._hash.copy()
            hashed.update(fresh.encode())
            if hashed.hexdigest()[:16] != frame.get("digest"):
                return False
            self._hash = hashed
            self.text += fresh
        self._learn(frame.get("meta"))
        self._made.clear()
        return True

    def whole(self) -> dict[str, Any]:
        """Return everything, for someone who joins."""
        return {
            "type": "stream.text",
            **self.about,
            "meta": self._meta,
            "text": self.text,
            "length": len(self.text),
            "digest": self._digest(),
        }

    def since(self, seen: Seen) -> str | None:
        """Return the one message that brings a viewer up to date, or None if it is."""
        if seen not in self._made:
            self._made[seen] = self._make(seen)
        return self._made[seen]

    def _make(self, seen: Seen) -> str | None:
        if not 0 <= seen.length <= len(self.text):
            if self.text:
                return encode(self.whole())
            return encode({"type": "stream.open", **self.about, "meta": self._meta})
        if seen == self.now:
            return None
        delta: dict[str, Any] = {
            "type": "stream.delta",
            "stream": self.about["stream"],
            "base": seen.length,
            "length": len(self.text),
            "digest": self._digest(),
            "delta": self.text[seen.length :],
        }
        if seen.meta != self._meta_state:
            delta["meta"] = self._meta
        return encode(delta)

    def _digest(self) -> str:
        return self._hash.hexdigest()[:16]

    def _learn(self, meta: Any) -> None:
        if isinstance(meta, dict) and meta != self._meta:
            self._meta = meta
            self._meta_state += 1
