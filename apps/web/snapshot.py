"""What is true in a room right now? The state that a page or a fresh socket starts from.

The number of queries is the same for every room. The position is read first, with the room itself:
whatever else changes meanwhile arrives again as an event behind it, and is harmless twice.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db.models import OuterRef, Subquery

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.approvals.models import ApprovalRequest
from apps.artifacts.models import Artifact, ArtifactVersion
from apps.rooms.models import Room
from apps.rooms.presence import online_in
from apps.rooms.previews import open_previews
from apps.rooms.selectors import event_view, events_after, last_events, roster_of, visible_room
from apps.runs.bodies import call_bodies
from apps.runs.models import Call, Run, Seat
from apps.runs.services import agent_card, member_card
from apps.runs.waits import is_paused
from apps.tools.registry import BUILTIN_TOOLS

__all__ = ["Greeting", "durable_part", "event_view", "greet", "room_snapshot", "with_live_part"]

LAST_EVENTS = 200
MAX_RUNS = 200
MAX_CALLS = 500
MAX_APPROVALS = 200
MAX_ARTIFACTS = 200
RESUME_WITHIN = 500
"""A client that is further behind than this gets a snapshot instead of the events."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a socket says first: the room, and either the missed events or a snapshot's rows."""

    room: Room
    events: list[dict[str, Any]] | None
    durable: dict[str, Any] | None


def greet(*, room_id: Any, user: User, after: int | None) -> Greeting:
    """Gather what a member's socket starts from, or refuse as if there were no such room."""
    room = visible_room(room_id=room_id, user=user)
    if after is not None and 0 <= room.position - after <= RESUME_WITHIN:
        missed = events_after(room_id=room.pk, position=after, limit=room.position - after)
        return Greeting(room, missed, None)
    return Greeting(room, None, durable_part(room))


def room_snapshot(room: Room, user: User) -> dict[str, Any]:
    """Return a room's present state for a member who takes part in it."""
    require(user, Permission.ROOM_TAKE_PART, room)
    room_id = str(room.pk)
    return with_live_part(
        durable_part(room), online=online_in(room_id), streams=open_previews(room_id)
    )


def with_live_part(
    durable: dict[str, Any], *, online: Collection[int], streams: list[dict[str, Any]]
) -> dict[str, Any]:
    """Complete a snapshot's rows with who is online and what is being written."""
    people = [{**person, "online": person["id"] in online} for person in durable["participants"]]
    return {**durable, "participants": people, "streams": streams}


def durable_part(room: Room) -> dict[str, Any]:
    """Return what the database knows of a room's present, as of a position or later."""
    pending = list(_pending_approvals(room))
    asked = {request.call_id for request in pending}
    items = last_events(room_id=room.pk, position=room.position, limit=LAST_EVENTS)
    calls = _calls_of_unfinished_runs(room)
    coming = _files_to_come(calls)
    return {
        "participants": [
            {**member_card(place.user), "role": str(place.role)} for place in roster_of(room.pk)
        ],
        "seats": [
            agent_card(seat.agent)
            for seat in Seat.objects.filter(room=room).select_related("agent").order_by("pk")
        ],
        "items": items,
        "more": bool(items) and items[0]["position"] > 1,
        "runs": [_run(run) for run in _unfinished_runs(room)],
        "calls": [
            {
                **_call(call),
                "targets": coming.get(call.pk, []),
                **({"waiting_on": "approval"} if call.pk in asked else {}),
            }
            for call in calls
        ],
        "approvals": [_approval(request) for request in pending],
        "artifacts": [_artifact(artifact) for artifact in _artifacts(room)],
    }


def _unfinished_runs(room: Room) -> Any:
    return (
        Run.objects.filter(room=room)
        .exclude(state=Run.State.FINISHED)
        .select_related("agent", "member")
        .order_by("created_at")[:MAX_RUNS]
    )


def _calls_of_unfinished_runs(room: Room) -> list[Call]:
    newest = (
        Call.objects.filter(run__room=room)
        .exclude(run__state=Run.State.FINISHED)
        .select_related("run__agent")
        .defer("arguments", "projection", "run__catalog")
        .order_by("-created_at")[:MAX_CALLS]
    )
    return list(newest)[::-1]


def _files_to_come(calls: list[Call]) -> dict[Any, list[str]]:
    """Return the files that calls under way are to make; a call that ended has none to come."""
    named = {
        name: tool.spec.targets_argument
        for name, tool in BUILTIN_TOOLS.items()
        if tool.spec.targets_argument is not None
    }
    running = [
        call.pk for call in calls if call.state == Call.State.DISPATCHED and call.tool in named
    ]
    if not running:
        return {}
    rows = list(Call.objects.filter(pk__in=running))
    bodies = call_bodies(rows)
    return {row.pk: bodies[row.pk].arguments.get(str(named[row.tool]), []) for row in rows}


def _pending_approvals(room: Room) -> Any:
    return (
        ApprovalRequest.objects.filter(call__run__room=room, state=ApprovalRequest.State.PENDING)
        .select_related("call", "decider")
        .prefetch_related("answers__by")
        .defer("call__arguments", "call__projection")
        .order_by("created_at")[:MAX_APPROVALS]
    )


def _artifacts(room: Room) -> Any:
    head = ArtifactVersion.objects.filter(artifact=OuterRef("pk"), number=OuterRef("head"))
    return (
        Artifact.objects.filter(room=room)
        .select_related("owner")
        .annotate(size=Subquery(head.values("size")[:1]))
        .order_by("-updated_at")[:MAX_ARTIFACTS]
    )


def _run(run: Run) -> dict[str, Any]:
    return {
        "id": str(run.pk),
        "agent": agent_card(run.agent),
        "member": member_card(run.member),
        "parent": None if run.parent_id is None else str(run.parent_id),
        "state": str(run.state),
    }


def _call(call: Call) -> dict[str, Any]:
    took = None
    if call.settled_at is not None and call.dispatched_at is not None:
        took = round((call.settled_at - call.dispatched_at).total_seconds() * 1000)
    return {
        "call": str(call.pk),
        "run": str(call.run_id),
        "tool": call.tool,
        "title": call.title,
        "effect": call.effect,
        "state": str(call.state),
        "outcome": str(call.outcome),
        "reason": call.reason,
        "milliseconds": took,
        "paused": is_paused(call),
        "dispatched_at": None if call.dispatched_at is None else call.dispatched_at.isoformat(),
        "agent": agent_card(call.run.agent),
    }


def _approval(request: ApprovalRequest) -> dict[str, Any]:
    return {
        "id": str(request.pk),
        "call": str(request.call_id),
        "run": str(request.call.run_id),
        "tool": request.tool,
        "title": request.call.title,
        "decider": member_card(request.decider),
        "second": str(request.second),
        "agreed": [member_card(answer.by) for answer in request.answers.all()],
        "expires_at": request.expires_at.isoformat(),
    }


def _artifact(artifact: Any) -> dict[str, Any]:
    return {
        "id": str(artifact.pk),
        "title": artifact.title,
        "kind": str(artifact.kind),
        "language": artifact.language,
        "head": artifact.head,
        "size": artifact.size or 0,
        "owner": member_card(artifact.owner),
        "updated_at": artifact.updated_at.isoformat(),
    }
