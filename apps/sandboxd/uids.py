"""Lend each running sandbox a user id of its own when the supervisor was started as root."""

from __future__ import annotations

import os
import pwd
import threading
from collections import deque
from dataclasses import dataclass

DEFAULT_START = 60_700
DEFAULT_COUNT = 32


class NoFreeUid(RuntimeError):
    """Every user id of the range is in use."""


@dataclass(frozen=True, slots=True)
class UidRange:
    """A block of user ids that belongs to sandboxes alone."""

    start: int = DEFAULT_START
    count: int = DEFAULT_COUNT

    def __post_init__(self) -> None:
        if self.start < 1 or not 1 <= self.count <= 65_536:
            raise ValueError("A uid range starts above 0 and holds between 1 and 65536 ids.")


def accounts_in(block: UidRange) -> list[str]:
    """Return the accounts of this machine that own an id of the range, and so could reach into
    the sandboxes that run under it.
    """
    wanted = range(block.start, block.start + block.count)
    return [entry.pw_name for entry in pwd.getpwall() if entry.pw_uid in wanted][:5]


def read_uid_range(text: str) -> UidRange:
    """Read START:COUNT as given on the command line."""
    start, colon, count = text.partition(":")
    if not colon or not start.isdecimal() or not count.isdecimal():
        raise ValueError(f"{text!r} is not START:COUNT, as in 60700:32.")
    return UidRange(int(start), int(count))


class UidPool:
    """Hand out user ids, the longest unused first, and take them back once all is dead."""

    def __init__(self, block: UidRange) -> None:
        self._free = deque(range(block.start, block.start + block.count))
        self._lock = threading.Lock()

    def borrow(self) -> int:
        """Take one id, or raise NoFreeUid."""
        with self._lock:
            if not self._free:
                raise NoFreeUid("Every user id of the sandbox range is in use.")
            return self._free.popleft()

    def give_back(self, uid: int) -> None:
        """Return an id whose processes are all dead."""
        with self._lock:
            self._free.append(uid)


def uid_pool(block: UidRange) -> UidPool | None:
    """Return a pool when we are root; an ordinary user has only one id to run under."""
    return UidPool(block) if os.geteuid() == 0 else None
