"""What of a run still holds processes, and how are they freed before a person is asked?

Nobody's programs wait for a person. What a session or a kernel keeps in memory cannot be kept
otherwise, so it is lost, and the next call or cell says so. Files are rows and stay.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from apps.runs.models import Run
from apps.sandbox.kernel_ends import living_kernels, release_kernels
from apps.sandbox.session_ends import CleanupFailed, close_sessions, open_sessions

_ASKED: Final = "It was ended while a person was asked."


class ProgramsLive(Exception):
    """A person is to be asked for a run whose programs live on."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run


def holds_processes(run: Run) -> bool:
    """Tell whether programs of a run live on between its calls, and no call works with them now."""
    return (
        open_sessions(run.pk).exists()
        or living_kernels(owner=run.member, room_id=run.room_id).exists()
    )


def free_processes(run: Run, *, path: Path | None = None) -> None:
    """End the sessions and the idle kernels of a run, within the time that a session has for it.

    No lock and no transaction is held. What does not end in time is ended by the sweep; that a
    session did not end as it should is said by its next call, and at the end of its run.
    """
    with suppress(CleanupFailed):
        # Its row says so, and is read again before the run's result is committed.
        close_sessions(run_id=run.pk, why=_ASKED, path=path)
    release_kernels(owner=run.member, room_id=run.room_id, path=path)
