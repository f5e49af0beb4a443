"""What do readers ask of runs?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, UUIDField
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.core.prepared import Given, Prepared
from apps.rooms.models import Room
from apps.runs.bodies import journal_bodies
from apps.runs.errors import RunNotFound
from apps.runs.models import Call, JournalEntry, Run, RunInput, Seat


def ready_runs(limit: int) -> Iterable[Any]:
    """Ids of runs that a worker should look at: queued and due, or held by a silent worker."""
    due = Q(retry_at=None) | Q(retry_at__lte=Now())
    return (
        Run.objects.filter(runtime=Run.Runtime.KAIZEN)
        .filter(
            Q(state=Run.State.QUEUED) & due | Q(state=Run.State.RUNNING, claim_expires_at__lt=Now())
        )
        .order_by("created_at")
        .values_list("pk", flat=True)[:limit]
    )


def waiting_inputs(limit: int) -> Iterable[Any]:
    """Ids of inputs that wait although their agent has no active run in that room."""
    active = Run.objects.filter(
        room_id=OuterRef("room_id"),
        agent_id=OuterRef("agent_id"),
        runtime=Run.Runtime.KAIZEN,
        parent=None,
    ).exclude(state=Run.State.FINISHED)
    return (
        RunInput.objects.filter(~Exists(active), run=None)
        .order_by("id")
        .values_list("pk", flat=True)[:limit]
    )


def visible_run(*, run_id: Any, user: User) -> Run:
    """Return a run of a room that the member takes part in, or refuse as if it did not exist."""
    run: Run | None = (
        Run.objects.visible_to(user)
        .select_related("agent", "member", "room")
        .filter(pk=run_id)
        .first()
    )
    if run is None:
        raise RunNotFound("There is no such run.")
    return run


def call_of_run(*, run_id: Any, call_id: Any) -> Call | None:
    """Return a call of this run."""
    return _CALL.first(run=run_id, call=call_id)


_CALL = Prepared(
    lambda: Call.objects.order_by().filter(
        pk=Given("call", UUIDField()), run=Given("run", UUIDField())
    )
)


def runs_for(user: User, *, room_id: Any = None, state: str | None = None) -> QuerySet[Run]:
    """Return the runs of the member's rooms: all, those of one room, or those in one state."""
    rows: QuerySet[Run] = Run.objects.visible_to(user).select_related("agent", "member")
    if room_id is not None:
        rows = rows.filter(room_id=room_id)
    return rows if state is None else rows.filter(state=state)


def seats_of(room: Room) -> QuerySet[Seat]:
    """Return the seats of a room with their agents."""
    return Seat.objects.filter(room=room).select_related("agent")


def ceiling_of(run: Run) -> frozenset[Any]:
    """Return what a run may use at most, now: its agents' ceilings, and what it was given."""
    ceiling = agents_ceiling(run)
    return ceiling if run.ceiling is None else ceiling & frozenset(run.ceiling)


def agents_ceiling(run: Run) -> frozenset[Any]:
    """Return the ceiling of a run's agent as it is now, within those of the agents above it."""
    ceiling = frozenset(run.agent.ceiling)
    parent_id = run.parent_id
    while parent_id is not None:
        # An ancestor that was narrowed since narrows whoever works for it.
        above = Run.objects.select_related("agent").only("agent__ceiling", "parent_id")
        parent = above.get(pk=parent_id)
        ceiling &= frozenset(parent.agent.ceiling)
        parent_id = parent.parent_id
    return ceiling


def line_of(run: Run) -> list[Any]:
    """Return the ids of the agents that a run works for, its own first."""
    agents, parent_id = [run.agent_id], run.parent_id
    while parent_id is not None:
        agent_id, parent_id = Run.objects.values_list("agent_id", "parent_id").get(pk=parent_id)
        agents.append(agent_id)
    return agents


def last_words(run: Run) -> str:
    """Return what a run said last, as it may be shown."""
    entry = (
        JournalEntry.objects.filter(run=run, kind=JournalEntry.Kind.ASSISTANT)
        .order_by("-sequence")
        .first()
    )
    if entry is None:
        return ""
    body = journal_bodies([entry])[0]
    return str(body.get("said", body["text"]))


def words_of_member(run_id: Any) -> list[str]:
    """Return what the member asked of a run, in the order in which it was asked."""
    return list(
        RunInput.objects.filter(run_id=run_id).order_by("id").values_list("text", flat=True)
    )
