"""What may a result claim to be on screen?

A tool may hand back something rich to be drawn beside the conversation (a canvas), with a claim
that it is on screen and need not be repeated. Drawing is additive: where it is dropped the result
stands, and every claim of it is withdrawn. Otherwise a model would describe a table that nobody
ever saw.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

NOTHING_ON_SCREEN: Final = (
    "Nothing of this result is on screen: what was to be shown there was dropped. Describe no data"
    " that you were not given."
)
MAX_DEPTH: Final = 48
MAX_REMEMBERED: Final = 64

_RICH: Final = "chatcanvasoutputs"
_CLAIMS: Final = frozenset({"onscreen", "isonscreen", "shownonscreen", "displayedonscreen"})


def without_canvases(value: Any) -> tuple[Any, bool]:
    """Return a value without its rich outputs and its claims of them, and whether it had any."""
    return _without(value, 0)


def _without(value: Any, depth: int) -> tuple[Any, bool]:
    if depth >= MAX_DEPTH:
        return value, False
    if isinstance(value, list):
        pairs = [_without(inner, depth + 1) for inner in value]
        return [inner for inner, _ in pairs], any(found for _, found in pairs)
    if not isinstance(value, dict):
        return value, False
    kept: dict[str, Any] = {}
    had = False
    for name, member in value.items():
        if _speaks_of_screens(name) and (_is_canvas(name, member) or _claims(name, member)):
            had = True
        elif isinstance(member, dict | list):
            kept[name], found = _without(member, depth + 1)
            had = had or found
        else:
            kept[name] = member
    return kept, had


def _speaks_of_screens(name: Any) -> bool:
    """Tell whether members of this name are looked at; names come again and again."""
    if isinstance(name, str) and len(name) <= MAX_REMEMBERED:
        return _remembered(name)
    return _names_one(name)


def _names_one(name: Any) -> bool:
    plain = _plain(name)
    return plain == _RICH or plain in _CLAIMS


_remembered = lru_cache(maxsize=4096)(_names_one)


def _is_canvas(name: Any, member: Any) -> bool:
    return _plain(name) == _RICH and isinstance(member, dict | list) and bool(member)


def _claims(name: Any, member: Any) -> bool:
    return _plain(name) in _CLAIMS and bool(member)


def _plain(name: Any) -> str:
    return str(name).replace("_", "").replace("-", "").casefold()
