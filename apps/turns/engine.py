"""How does a turn go? Ask the model, store its answer, let its calls cross, and ask again.

Everything that decides what happens next is in rows: the journal and the calls. A worker holds
nothing that another could not rebuild, so a turn may stop at any line and go on elsewhere. What is
only in memory (an answer that is still streaming) was never promised to anyone.

One step is `asking`, `storing` and `calls`; what a step may do stands in its `plan`; `failing` says
what becomes of a model that failed.
"""

from __future__ import annotations

from typing import Any

import structlog
from django.conf import settings

from apps.boundary.services import close_waiting_calls
from apps.boundary.workers import executor_name
from apps.core.correlation import bind_correlation_id
from apps.domain.tooling import CallState
from apps.runs.bodies import journal_bodies
from apps.runs.claims import claim_run, release_claim
from apps.runs.errors import RunOver, StaleFence
from apps.runs.models import Call, JournalEntry, Run
from apps.runs.services import finish_run, park_run
from apps.tools.catalog import freeze, offered_tools
from apps.turns.asking import ask_model
from apps.turns.calls import cross_open_calls
from apps.turns.failing import keep_said
from apps.turns.grip import Grip
from apps.turns.plan import first_policy, tighter
from apps.turns.pulse import Pulse, leaving

log = structlog.get_logger(__name__)

MAX_BREAKS = 5
"""A turn that breaks off so often before it gets anywhere would break off for ever."""


def run_turn(*, run_id: Any) -> None:
    """Claim a run and take it as far as it goes: to its end, or to a wait."""
    if leaving.is_set():
        return
    fence = claim_run(run_id=run_id, worker=executor_name())
    if fence is None:
        return
    try:
        with Pulse(run_id=run_id, fence=fence) as pulse:
            _go(Grip(run_id=run_id, fence=fence, pulse=pulse))
    except (StaleFence, RunOver) as over:
        log.info("turn_overtaken", run=str(run_id), why=over.code)


def _go(grip: Grip) -> None:
    try:
        if not _begin(grip):
            return
        while not grip.pulse.interrupted():
            if cross_open_calls(grip):
                return
            if grip.pulse.interrupted():
                break
            if not ask_model(grip):
                return
        _leave(grip)
    finally:
        # However the turn left, nothing stays shown that was not stored.
        grip.drop_answer()


def _begin(grip: Grip) -> bool:
    """Freeze what a new run holds; False says that the run may not go on and has ended."""
    with grip.locked() as run:
        bind_correlation_id(run.correlation_id)
        if run.breaks >= MAX_BREAKS:
            grip.finish(
                run,
                Run.Outcome.FAILED,
                f"The turn broke off {run.breaks} times in a row, so it was ended. Whoever"
                f" runs this Kaizen finds why under the reference {run.correlation_id}.",
            )
            return False
        if grip.is_over(run):
            return False
        if run.catalog is None:
            _freeze(run)
        grip.pulse.allow(max(0.0, (run.budget_s or 0) - run.spent_ms / 1000))
    return True


def _freeze(run: Run) -> None:
    """Give a locked run the catalog, the first policy and the time that it keeps to its end."""
    fields = freeze(run)
    asked = JournalEntry.objects.filter(run=run, kind=JournalEntry.Kind.INPUT).first()
    text = "" if asked is None else journal_bodies([asked])[0]["text"]
    run.policy = first_policy(run, offered_tools(run), text)
    own = tighter(run.agent.budget_s, settings.KAIZEN_TURN_BUDGET_S)
    run.budget_s = tighter(run.budget_s, own)
    run.save(update_fields=[*fields, "policy", "budget_s", "updated_at"])


def _leave(grip: Grip) -> None:
    """End a run that was stopped or has used its time; give it back when this process is ending."""
    pulse = grip.pulse
    if pulse.lost:
        return
    if not pulse.stop_requested and not pulse.out_of_time:
        release_claim(run_id=grip.run_id, fence=grip.fence)
        return
    with grip.locked() as run:
        by = run.stop_requested_by if pulse.stop_requested else "system:kaizen"
        why = "The run was stopped." if pulse.stop_requested else _out_of_time(run)
        close_waiting_calls(run=run, actor=by, message=why)
        if Call.objects.filter(run=run, state=CallState.DISPATCHED.value).exists():
            # Its executor was told; settling it wakes the run, which then ends here.
            park_run(run=run)
        elif pulse.stop_requested:
            finish_run(run=run, outcome=Run.Outcome.STOPPED, explanation="Stopped.")
        else:
            keep_said(grip, run)
            finish_run(run=run, outcome=Run.Outcome.FAILED, explanation=why)


def _out_of_time(run: Run) -> str:
    return f"The turn used up the {run.budget_s} seconds of work that it had."
