"""Who works on a run right now, and how does that worker write for it and end it?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apps.audit.services import SYSTEM
from apps.boundary.lost import lost_place
from apps.boundary.services import close_waiting_calls
from apps.runs.claims import fenced
from apps.runs.models import Run
from apps.runs.services import finish_run
from apps.turns.answer import Answer
from apps.turns.pulse import Pulse


class Grip:
    """One worker's hold on one run: its fence, its pulse, and the answer that it listens to."""

    def __init__(self, *, run_id: Any, fence: int, pulse: Pulse) -> None:
        self.run_id = run_id
        self.fence = fence
        self.pulse = pulse
        self.answer: Answer | None = None

    @contextmanager
    def locked(self) -> Iterator[Run]:
        """Open a transaction in which this worker alone may write for the run."""
        with fenced(run_id=self.run_id, fence=self.fence) as run:
            yield run

    def is_over(self, run: Run) -> bool:
        """End a locked run that has lost its place, as things stand now."""
        if run.stop_requested_at is not None:
            self.pulse.note_stop()
            return False
        why = lost_place(run)
        if not why and run.catalog is None and not run.agent.enabled:
            why = f"{run.agent.name} is switched off."
        if not why:
            return False
        self.finish(run, Run.Outcome.STOPPED, why)
        return True

    def finish(self, run: Run, outcome: str, explanation: str) -> None:
        """End a locked run and whatever of it was still to come: no open call outlives its run."""
        close_waiting_calls(run=run, actor=SYSTEM, message=explanation)
        finish_run(run=run, outcome=outcome, explanation=explanation)

    def fail(self, explanation: str) -> None:
        """End the run as failed, with a sentence that everyone in the room may read."""
        with self.locked() as run:
            self.finish(run, Run.Outcome.FAILED, explanation)

    def drop_answer(self) -> None:
        """Take back what was shown of an answer and not stored."""
        if self.answer is not None:
            self.answer.drop()
