"""How does a call end whose executor fell silent?"""

from __future__ import annotations

from apps.boundary.crossing import Crossing
from apps.boundary.pausing import settle_from_early_answer
from apps.boundary.steps.project import unexecuted
from apps.boundary.steps.record import record
from apps.domain.tooling import Effect, FaultDomain, Outcome, Reason, ToolFailure
from apps.runs.models import Call


def settle_silent(crossing: Crossing) -> None:
    """Settle a dispatched call whose executor has fallen silent, if it has."""
    if not Call.objects.silent().filter(pk=crossing.call.pk).exists():
        return
    if settle_from_early_answer(crossing):
        return
    # What the call was when it was proposed counts, not what its tool may have become.
    read = crossing.call.effect == Effect.READ.value
    certain = read or crossing.keeps_at_its_end
    outcome = Outcome.ABANDONED if certain else Outcome.AMBIGUOUS
    reason = Reason.INTERRUPTED if certain else Reason.OUTCOME_UNKNOWN
    message = "The worker stopped before the tool had answered. " + (
        "The tool only reads, so it may be called again."
        if read
        else "What it would have kept is not kept: nothing was saved, and it may be called again."
        if certain
        else "Whether it changed anything is unknown; look before trying again."
    )
    # It was the worker that fell silent, whatever the tool did to it.
    failure = ToolFailure(reason, message, retryable=certain, domain=FaultDomain.BOUNDARY)
    record(
        crossing,
        outcome=outcome,
        reason=reason.value,
        rule="executor_fell_silent",
        projection=unexecuted(
            outcome=outcome.value,
            reason=reason,
            message=message,
            fault=failure.fault,
            retryable=certain,
        ),
        explanation=message,
        failure=failure,
    )
