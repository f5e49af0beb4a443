"""Which processes did a supervisor leave that was killed while it launched a sandbox?

Bubblewrap's second half waits for its first before it ties its life to anybody. When both the
supervisor and that first half die in this moment, it waits for ever: it runs no program and holds
nothing, but it is there. So every launch carries a name that only supervisors of one state folder
use, and the next of them, which alone holds that folder's lock, ends what still bears it. The
name is gone with the step that starts a program.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_DEATH_MS: Final = 5_000


def name_of(tag: str) -> str:
    """Return what launches of one state folder are called in the list of processes."""
    return f"kaizen-launch-{tag}"


def end_strays(name: str) -> int:
    """Kill every process that bears this name, and return how many there were."""
    if not _PROC.is_dir():
        return 0
    return sum(_end(pid, name) for pid in _bearing(name))


def _bearing(name: str) -> Iterator[int]:
    for place in _PROC.iterdir():
        if place.name.isdecimal() and _called(int(place.name)) == name:
            yield int(place.name)


def _called(pid: int) -> str:
    try:
        line = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        # It has ended since, or is none of ours.
        return ""
    return line.partition(b"\0")[0].decode("latin-1")


def _end(pid: int, name: str) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        process = os.pidfd_open(pid)
        try:
            # The number may have been given to somebody else before it was held fast.
            if _called(pid) != name:
                return False
            signal.pidfd_send_signal(process, signal.SIGKILL)
            poll = select.poll()
            poll.register(process, select.POLLIN)
            return bool(poll.poll(_DEATH_MS))
        finally:
            os.close(process)
    return False
