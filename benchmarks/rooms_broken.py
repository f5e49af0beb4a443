"""Kaizen's web server with a hub that loses events: the benchmark has to notice.

Of the events that one reading brings, only the newest is handed out, as a relay with a latest-value
slot would do with what must not be lost. Nothing of this exists outside the benchmarks.
"""

from __future__ import annotations

from typing import Any

from apps.rooms.watched import Watched
from kaizen.asgi import application

__all__ = ["application"]

_whole = Watched.hand_out


def _only_the_newest(self: Watched, events: list[dict[str, Any]]) -> None:
    _whole(self, events[-1:])


setattr(Watched, "hand_out", _only_the_newest)  # noqa: B010 (a break on purpose, said to no type)
