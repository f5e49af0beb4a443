"""How does a run that works for a call end it, and how does a stop reach it?

A child run is started by its parent's call, which stays dispatched until the child has ended. The
child knows nothing of that: once it is finished, the call is found here and settled with its last
word. Locks go down the line, the parent before its child.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils import timezone

from apps.boundary.crossing import Crossing, Executed
from apps.boundary.steps.project import project
from apps.boundary.steps.record import record
from apps.domain.tooling import CallState, Outcome, Reason, ToolFailure, ToolOk
from apps.grants.policy import deployment_policy
from apps.rooms.services import room_last
from apps.runs.bodies import projection_of
from apps.runs.claims import lock_call, lock_run
from apps.runs.models import Call, Run
from apps.runs.selectors import last_words
from apps.tools.catalog import resolve_tool


def calls_of_ended_children(limit: int) -> Iterable[Any]:
    """Ids of calls whose child run has ended, and that do not know it yet."""
    return Call.objects.filter(
        state=CallState.DISPATCHED.value, child__state=Run.State.FINISHED
    ).values_list("pk", flat=True)[:limit]


@room_last()
def settle_child(*, call_id: Any) -> None:
    """End a call with the last word of the run that worked for it, once that has ended."""
    found = Call.objects.values_list("run_id", flat=True).filter(pk=call_id).first()
    if found is None:
        return
    run = lock_run(found)
    call = lock_call(call_id)
    child = Run.objects.select_related("agent").filter(parent_call=call).first()
    if child is None or child.state != Run.State.FINISHED:
        return
    if call.state == CallState.DISPATCHED.value:
        _settle(child, run=run, call=call)


def _settle(child: Run, *, run: Run, call: Call) -> None:
    """Settle a locked call with what became of its child, and count the child's time as its own."""
    tool = resolve_tool(call.tool, run.agent, deployment_policy())
    executed = _ended(child)
    run.spent_ms += child.spent_ms
    run.save(update_fields=["spent_ms", "updated_at"])
    if tool is None:
        raise LookupError("Only a tool of our own hands a call on.")
    record(
        Crossing(run=run, call=call, tool=tool),
        outcome=executed.outcome,
        reason=executed.reason,
        rule="child_has_ended",
        projection=project(executed, tool.spec),
        failure=executed.failure,
    )


def stop_children(*, run: Run, by: str) -> list[Run]:
    """Tell every run that works for this one to stop; return those that are still at it.

    The run is locked. A child that no worker holds ends at once.
    """
    under_way = Run.objects.filter(parent=run).exclude(state=Run.State.FINISHED)
    children = [lock_run(ident) for ident in under_way.order_by("pk").values_list("pk", flat=True)]
    for child in children:
        if child.stop_requested_at is None:
            child.stop_requested_at = timezone.now()
            child.stop_requested_by = by
            child.save(update_fields=["stop_requested_at", "stop_requested_by", "updated_at"])
    return children


def _ended(child: Run) -> Executed:
    made = _artifacts_of(child)
    words = last_words(child)
    if child.outcome == Run.Outcome.COMPLETED:
        value = {"agent": child.agent.slug, "answer": words, "run": str(child.pk)}
        return Executed(Outcome.OK, ToolOk(value, artifacts=tuple(made)))
    stopped = child.outcome == Run.Outcome.STOPPED
    failure = ToolFailure(
        Reason.CANCELLED if stopped else Reason.EXECUTION_ERROR,
        f"{child.agent.name} did not finish. {child.explanation}".strip(),
        saved=tuple(made),
    )
    return Executed(Outcome.STOPPED if stopped else Outcome.ERROR, failure)


def _artifacts_of(run: Run) -> list[str]:
    calls = Call.objects.filter(run=run, outcome=Outcome.OK.value).order_by("step", "place")
    made: list[str] = []
    for call in calls:
        projection = projection_of(call) or {}
        made += projection.get("artifacts") or []
    return list(dict.fromkeys(made))
