"""Is this worker still the one, and should it go on? A heartbeat for the length of a turn."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any

import structlog
from django.db import DatabaseError, connection
from django.db.models import F

from apps.runs.claims import CLAIM_SECONDS, renew_claim
from apps.runs.models import Run

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
_RENEW_EVERY = int(CLAIM_SECONDS / 3 / LOOK_SECONDS)

leaving = threading.Event()
"""Set when this process was asked to end: turns checkpoint and give their runs back."""


class Pulse:
    """Renews a claim from its own thread, and notices Stop, a takeover and shutdown."""

    def __init__(self, *, run_id: Any, fence: int) -> None:
        self._run_id = run_id
        self._fence = fence
        self._done = threading.Event()
        self._stop = threading.Event()
        self._until: float | None = None
        self._counted = time.monotonic()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    @property
    def stop_requested(self) -> bool:
        """Whether a person stopped the run."""
        return self._stop.is_set()

    @property
    def lost(self) -> bool:
        """Whether another worker has taken the run over."""
        return self._lost.is_set()

    @property
    def out_of_time(self) -> bool:
        """Whether the run has used up its budget of work."""
        return self._until is not None and time.monotonic() >= self._until

    def allow(self, seconds: float) -> None:
        """Say how much work the run has left, from now on."""
        self._until = time.monotonic() + seconds

    def note_stop(self) -> None:
        """Take over at once what a locked row says, ahead of the next look."""
        self._stop.set()

    def interrupted(self) -> bool:
        """Whether to end what is being done, for any of the four reasons."""
        return self._stop.is_set() or self._lost.is_set() or leaving.is_set() or self.out_of_time

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
        if kind is None:
            # The time since the last renewal; a worker that dies loses at most that.
            Run.objects.filter(pk=self._run_id).update(spent_ms=F("spent_ms") + self._uncounted())

    def _uncounted(self) -> int:
        """Return the milliseconds of work that no row knows of yet."""
        now = time.monotonic()
        since, self._counted = self._counted, now
        return int((now - since) * 1000)

    def _beat(self) -> None:
        looks = 0
        while not self._done.wait(LOOK_SECONDS):
            looks += 1
            try:
                if Run.objects.filter(pk=self._run_id, stop_requested_at__isnull=False).exists():
                    self._stop.set()
                if looks % _RENEW_EVERY == 0 and not renew_claim(
                    run_id=self._run_id, fence=self._fence, spent_ms=self._uncounted()
                ):
                    self._lost.set()
            except DatabaseError as away:
                log.warning("claim_not_renewed", run=str(self._run_id), error=type(away).__name__)
            finally:
                connection.close()
