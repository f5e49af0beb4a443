"""When did what happen in a run? Its calls and journal steps on one line of time, within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from apps.core.admin import Cell, code, path_of, span
from apps.domain.tooling import CallState, Outcome
from apps.runs.models import Call, JournalEntry, Run

STEPS_SHOWN = 200
AUDIT_SHOWN = 20
OUTCOME_TONES = {
    Outcome.OK.value: "ok",
    Outcome.ERROR.value: "bad",
    Outcome.RAISED.value: "bad",
    Outcome.TIMEOUT.value: "bad",
    Outcome.ABANDONED.value: "bad",
    Outcome.AMBIGUOUS.value: "odd",
    Outcome.DENIED.value: "wait",
}


@dataclass(frozen=True, slots=True)
class Timeline:
    """What is drawn of a run."""

    rows: Sequence[Sequence[Cell]]
    calls: int
    took: timedelta
    note: str


def run_timeline(run: Run) -> Timeline:
    """Lay a run's calls and journal steps out on its line of time."""
    end = run.finished_at or timezone.now()
    whole = max(end - run.created_at, timedelta(milliseconds=1))
    calls = list(
        Call.objects.filter(run=run)
        .defer("arguments", "projection")
        .order_by("created_at")[: STEPS_SHOWN + 1]
    )
    steps = list(
        JournalEntry.objects.filter(run=run)
        .only("sequence", "kind", "at", "run_id")
        .order_by("sequence")[: STEPS_SHOWN + 1]
    )
    lines = [
        *((step.at, _step(step, run, whole)) for step in steps[:STEPS_SHOWN]),
        *((call.created_at, _call(call, run, whole)) for call in calls[:STEPS_SHOWN]),
    ]
    lines.sort(key=lambda line: line[0])
    more = len(calls) > STEPS_SHOWN or len(steps) > STEPS_SHOWN
    note = f"the first {STEPS_SHOWN} of each kind" if more else "times and names only"
    return Timeline([cells for _, cells in lines], len(calls[:STEPS_SHOWN]), whole, note)


def _step(step: JournalEntry, run: Run, whole: timedelta) -> Sequence[Cell]:
    word = step.get_kind_display()
    return (
        code(f"j{step.sequence}"),
        Cell(word),
        Cell(f"{word}, at one moment", "info", bar=_bar(run.created_at, step.at, step.at, whole)),
        Cell("written"),
        Cell("—"),
    )


def _call(call: Call, run: Run, whole: timedelta) -> Sequence[Cell]:
    began = call.dispatched_at or call.created_at
    ended = call.settled_at or timezone.now()
    waits = call.state == CallState.WAITING.value
    tone = "wait" if waits else OUTCOME_TONES.get(call.outcome, "quiet")
    return (
        code(f"{call.step}.{call.place}"),
        Cell(call.tool, mono=True, href=path_of(call)),
        Cell(
            f"{call.tool}: {span(ended - began)}",
            tone,
            bar=_bar(run.created_at, began, ended, whole),
        ),
        Cell(call.outcome or call.state, tone),
        Cell(span(ended - began) if call.settled_at else "—"),
    )


def _bar(
    start: datetime, began: datetime, ended: datetime, whole: timedelta
) -> tuple[float, float]:
    left = min(100.0, max(0.0, 100 * ((began - start) / whole)))
    return left, min(100.0 - left, max(0.0, 100 * ((ended - began) / whole)))
