"""How is a proposed call refused before anything is decided about it? Settled, and never run."""

from __future__ import annotations

from apps.boundary.crossing import Crossing
from apps.boundary.steps.project import unexecuted
from apps.boundary.steps.record import record
from apps.domain.tooling import Outcome, Reason
from apps.runs.models import Call, Run


def refuse_unasked(*, run: Run, call: Call, outcome: Outcome, reason: Reason, message: str) -> None:
    """Settle a stored call of a locked run that its step could not ask for."""
    record(
        Crossing(run=run, call=call, tool=None),
        outcome=outcome,
        reason=reason.value,
        rule="step_may_ask",
        projection=unexecuted(outcome=outcome.value, reason=reason, message=message),
        explanation=message,
    )
