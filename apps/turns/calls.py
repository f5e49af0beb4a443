"""How do the calls of a step cross? One after the other, in the order in which the model gave them.

Every call is a barrier: the next one crosses once it has settled. Only reads that follow each
other, are safe beside others, neither pause nor use a connection, and only as many as the server
allows at once, cross together. What came of them is written down in the order of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from django.conf import settings
from django.db.models import Q

from apps.boundary.pipeline import cross
from apps.boundary.together import cross_together
from apps.boundary.workers import executor_name
from apps.domain.bounds import end_of
from apps.domain.tooling import CallState, Effect, Outcome, Specification
from apps.runs.claims import lock_call
from apps.runs.models import Call, Run
from apps.runs.services import park_run
from apps.tools.catalog import known_specs
from apps.turns.grip import Grip
from apps.turns.record import attempts_of
from apps.turns.steering import admit_steering

MOST_TOGETHER = 8
_UNKNOWN_END = "A write has an unknown end. Look at what it may have changed before going on."


def cross_open_calls(grip: Grip) -> bool:
    """Let every call of the last step cross; True says that the run parked or ended."""
    while not grip.pulse.interrupted():
        with grip.locked() as run:
            left = Q(outcome=Outcome.AMBIGUOUS.value) | ~Q(state=CallState.SETTLED.value)
            calls = list(Call.objects.filter(left, run=run, parent=None).order_by("step", "place"))
            if any(call.outcome == Outcome.AMBIGUOUS.value for call in calls):
                # A turn never goes on past a write with an unknown end.
                grip.finish(run, Run.Outcome.FAILED, _UNKNOWN_END)
                return True
            if any(call.state != CallState.PROPOSED.value for call in calls):
                park_run(run=run)
                return True
            if not calls:
                return _ends_here(grip, run)
            batch = _next_batch(run, calls)
            crossed = [cross(run=run, call=lock_call(batch[0].pk))] if len(batch) == 1 else []
        settled = [one.call for one in crossed] or cross_together(
            run_id=grip.run_id,
            fence=grip.fence,
            calls=[call.pk for call in batch],
            executor=executor_name(),
            cancelled=grip.pulse.interrupted,
        )
        for call in settled:
            if grip.answer is not None and call.state == CallState.SETTLED.value:
                grip.answer.close_preview(call)
    return False


def _ends_here(grip: Grip, run: Run) -> bool:
    """End a locked run that its own calls forbid to go on; else let its member's words in."""
    explanation = end_of(attempts_of(run))
    if explanation:
        grip.finish(run, Run.Outcome.FAILED, explanation)
        return True
    admit_steering(run)
    return False


def _next_batch(run: Run, proposed: Sequence[Call]) -> Sequence[Call]:
    """Return the call that crosses next, or the reads that may cross beside each other."""
    most = most_together(settings.AGENT_LOOP_MAX_PARALLEL_TOOLS, pool=settings.KAIZEN_DB_POOL)
    if most < 2 or not run.agent.parallel_tool_calls:
        return proposed[:1]
    safe = {name for name, spec in known_specs(run.agent).items() if _is_safe_beside(spec)}
    return list(takewhile(lambda call: call.tool in safe, proposed))[:most] or proposed[:1]


def most_together(allowed: int, *, pool: int) -> int:
    """Return how many reads may run beside each other.

    Each holds a connection until it has ended, and whoever renews its hold needs one besides: so
    reads never take more than half of what the process has.
    """
    return max(1, min(allowed, MOST_TOGETHER, pool // 2))


def _is_safe_beside(spec: Specification) -> bool:
    return (
        spec.parallel_safe
        and spec.effect is Effect.READ
        and spec.pauses is None
        and not spec.uses_connection
    )
