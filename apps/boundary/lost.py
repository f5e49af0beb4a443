"""Which runs can nobody go on with, and how do they end?

A run needs an open room, a member who takes part in it, and time that is left. One of another
runtime needs a token that is alive besides, and nobody's worker ever looks at it: so whatever ends
it is found here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now
from django.utils import timezone

from apps.accounts.permissions import Permission, may
from apps.audit.services import SYSTEM
from apps.boundary.services import close_waiting_calls
from apps.rooms.models import Participant
from apps.rooms.services import room_last
from apps.runs.claims import lock_run
from apps.runs.models import Call, Run
from apps.runs.services import finish_run


def lost_runs(limit: int) -> Iterable[Any]:
    """Ids of runs that wait for what cannot come any more, and that no worker holds."""
    return (
        Run.objects.exclude(state=Run.State.FINISHED)
        .filter(
            Q(runtime=Run.Runtime.EXTERNAL) & (_lost() | _ended())
            | Q(runtime=Run.Runtime.KAIZEN, state=Run.State.PARKED) & _lost(),
            ~Exists(_running(OuterRef("pk"))),
        )
        .values_list("pk", flat=True)[:limit]
    )


def nobody_waits() -> Q:
    """A run for which no tool needs to go on: stopped, out of time, or its caller has gone away."""
    return _lost() | _ended() | Q(state=Run.State.FINISHED)


def _lost() -> Q:
    place = Participant.objects.filter(
        room_id=OuterRef("room_id"), user_id=OuterRef("member_id"), left_at=None
    )
    return (
        Q(room__closed_at__isnull=False)
        | Q(member__is_active=False)
        | Q(deadline_at__lte=Now())
        | ~Exists(place)
        | Q(parent__state=Run.State.FINISHED)
    )


def _ended() -> Q:
    return Q(token_expires_at__lte=Now()) | Q(stop_requested_at__isnull=False)


@room_last()
def end_lost_run(*, run_id: Any) -> None:
    """End a run that nobody can go on with, unless a call of it is still being carried out."""
    run = lock_run(run_id)
    outside = run.runtime == Run.Runtime.EXTERNAL
    # A worker holds a running run of ours and ends it itself; no worker ever holds another's.
    idle = Run.State.RUNNING if outside else Run.State.PARKED
    if run.state != idle or _running(run.pk).exists():
        return
    outcome, why = Run.Outcome.STOPPED, lost_place(run)
    if outside and run.stop_requested_at is not None:
        why = why or "Stopped."
    elif outside and _token_is_over(run):
        outcome, why = Run.Outcome.FAILED, "Its runtime never ended the run."
    if not why:
        return
    close_waiting_calls(run=run, actor=SYSTEM, message=why)
    finish_run(run=run, outcome=outcome, explanation=why)


def lost_place(run: Run) -> str:
    """Say why a locked run may not go on in its room, or nothing where it may."""
    if run.room.closed_at is not None:
        return "The room was closed."
    if not may(run.member, Permission.ROOM_TAKE_PART, run.room):
        return f"{run.member.name} does not take part in this room any more."
    if run.parent_id is not None and _is_over(run.parent_id):
        return "The run that it worked for has ended."
    if run.deadline_at <= timezone.now():
        return "The run was open for longer than any run may be."
    return ""


def _is_over(run_id: Any) -> bool:
    return Run.objects.filter(pk=run_id, state=Run.State.FINISHED).exists()


def _token_is_over(run: Run) -> bool:
    return run.token_expires_at is not None and run.token_expires_at <= timezone.now()


def _running(run: Any) -> Any:
    return Call.objects.running().filter(run=run)
