"""When did what happen in a run? Its calls and journal steps on one line of time, within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from apps.core.admin import Cell, code, digest, path_of, span
from apps.domain.tooling import CallState, Outcome
from apps.runs.models import Call, JournalEntry, Run
from apps.runs.waits import WaitsFor, waits_for

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
_WORDS = {
    CallState.PROPOSED.value: "Proposed",
    CallState.DISPATCHED.value: "Running",
    CallState.SETTLED.value: "Settled",
    Outcome.OK.value: "Done",
    Outcome.ERROR.value: "Failed",
    Outcome.RAISED.value: "Failed by an error",
    Outcome.TIMEOUT.value: "Out of time",
    Outcome.ABANDONED.value: "Abandoned",
    Outcome.SUPPRESSED.value: "Repeat, not sent",
    Outcome.REFUSED.value: "Not allowed",
    Outcome.DENIED.value: "Denied",
    Outcome.STOPPED.value: "Stopped",
    Outcome.AMBIGUOUS.value: "Outcome unknown",
}

_WAITS = {
    WaitsFor.PERSON: "Asks a person",
    WaitsFor.WORKER: "Waiting for a worker",
    WaitsFor.SYSTEM: "Waiting for another system",
    WaitsFor.AGENT: "Waiting for another agent",
}


@dataclass(frozen=True, slots=True)
class Timeline:
    """What is drawn of a run."""

    rows: Sequence[Sequence[Cell]]
    decisions: Sequence[Sequence[Cell]]
    calls: int
    took: timedelta
    waited: timedelta
    ran: timedelta
    waits: str
    note: str


def run_timeline(run: Run) -> Timeline:
    """Lay a run's calls and journal steps out on its line of time, and say how each was decided."""
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
    more = len(calls) > STEPS_SHOWN or len(steps) > STEPS_SHOWN
    calls, steps = calls[:STEPS_SHOWN], steps[:STEPS_SHOWN]
    lines = [
        *((step.at, _step(step, run, whole)) for step in steps),
        *((call.created_at, _call(call, run, whole)) for call in calls),
    ]
    lines.sort(key=lambda line: line[0])
    note = f"the first {STEPS_SHOWN} of each kind" if more else "times and names only"
    return Timeline(
        rows=[cells for _, cells in lines],
        decisions=[_decision(call) for call in calls],
        calls=len(calls),
        took=whole,
        waited=sum((waited_of(call) for call in calls), timedelta()),
        ran=sum((ran_of(call) for call in calls), timedelta()),
        waits=_waits_of(calls),
        note=note,
    )


def stands(call: Call) -> str:
    """Say in words how a call ended, or where it stands and whom it waits for."""
    waits = waits_for(call)
    return _WORDS[call.outcome or call.state] if waits is None else _WAITS[waits]


def tone_of(call: Call) -> str:
    """Return the tone in which a call's end, or its wait, is shown."""
    if call.outcome:
        return OUTCOME_TONES.get(call.outcome, "quiet")
    return "quiet" if waits_for(call) is None else "wait"


def waited_of(call: Call) -> timedelta:
    """How long a call waited for somebody's yes before it was carried out, or was not."""
    if not call.needs_receipt:
        return timedelta()
    end = call.dispatched_at or call.settled_at or timezone.now()
    return max(end - call.created_at, timedelta())


def ran_of(call: Call) -> timedelta:
    """How long a call was carried out."""
    if call.dispatched_at is None:
        return timedelta()
    return max((call.settled_at or timezone.now()) - call.dispatched_at, timedelta())


def _waits_of(calls: Sequence[Call]) -> str:
    """Say for which of its calls a run waits, and for whom each of them."""
    return "; ".join(f"{call.tool}: {stands(call).lower()}" for call in calls if waits_for(call))


def _decision(call: Call) -> Sequence[Cell]:
    """Say how a call was decided: by which rule, about which arguments, with what end."""
    return (
        Cell(f"{call.step}.{call.place}", mono=True, href=path_of(call)),
        Cell(call.tool, mono=True),
        Cell(stands(call), tone_of(call), title=call.reason),
        code(call.rule),
        Cell(span(waited_of(call)) if call.needs_receipt else "—"),
        Cell(call.effect or "—"),
        digest(call.arguments_digest),
    )


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
    tone = tone_of(call)
    waited = None
    if call.needs_receipt and call.dispatched_at is not None:
        waited = _bar(run.created_at, call.created_at, call.dispatched_at, whole)
    return (
        code(f"{call.step}.{call.place}"),
        Cell(call.tool, mono=True, href=path_of(call)),
        Cell(
            f"{call.tool}: {span(ended - began)}",
            tone,
            bar=_bar(run.created_at, began, ended, whole),
            waited=waited,
        ),
        Cell(stands(call), tone),
        Cell(span(ended - began) if call.settled_at else "—"),
    )


def _bar(
    start: datetime, began: datetime, ended: datetime, whole: timedelta
) -> tuple[float, float]:
    left = min(100.0, max(0.0, 100 * ((began - start) / whole)))
    return left, min(100.0 - left, max(0.0, 100 * ((ended - began) / whole)))
