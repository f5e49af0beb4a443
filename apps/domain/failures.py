"""Does a result itself say that it failed, whatever its envelope says?

Whether a call failed is decided here, not by whoever answered: a body that reports a failure is
one, also where the transport was fine and nobody set a flag. Only the body's own members count;
what lies deeper describes something else, such as another job that failed.
"""

from __future__ import annotations

import json
from typing import Any, Final

MAX_TEXT: Final = 256 * 1024
"""Characters of a text that is still read as JSON."""
MAX_BLOCKS: Final = 32

_STATES: Final = ("status", "state", "outcome")
_FAILED: Final = frozenset({"error", "errored", "errors", "fail", "failed", "failure", "failing"})
_DONE: Final = ("success", "ok")
_FLAGS: Final = ("iserror", "is_error")


def reported_failure(value: Any) -> str | None:
    """Return which member of a result reports a failure, or nothing where none does."""
    for body in _bodies(value):
        if found := _reports(body):
            return found
    return None


def _bodies(value: Any) -> list[dict[str, Any]]:
    """Return the objects whose own members count: the value, and its text blocks that are JSON."""
    found = [_object(value)]
    blocks = value.get("content") if isinstance(value, dict) else value
    if isinstance(blocks, list):
        found += [_object(block["text"]) for block in blocks[:MAX_BLOCKS] if _is_text(block)]
    return [body for body in found if body is not None]


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and "text" in block


def _object(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str):
        text = value.strip()
        if not text.startswith("{") or len(text) > MAX_TEXT:
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _reports(body: dict[str, Any]) -> str | None:
    for name, member in body.items():
        plain = name.strip().casefold()
        if plain == "error" and _says_something(member):
            return name
        if plain in _STATES and isinstance(member, str) and member.strip().casefold() in _FAILED:
            return name
        if plain in _DONE and member is False:
            return name
        if plain in _FLAGS and member is True:
            return name
    return None


def _says_something(member: Any) -> bool:
    # "error": 0, false, "" and {} are ways to say that there was none.
    return bool(member.strip()) if isinstance(member, str) else bool(member)
