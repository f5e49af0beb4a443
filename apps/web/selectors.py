"""What do the member's pages list?"""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.approvals.models import ApprovalRequest
from apps.approvals.selectors import (
    pending_approvals_for,
    requests_for,
    requests_waiting_for_others,
)
from apps.rooms.models import Participant, Room, RoomEvent
from apps.runs.models import Run, Seat

NAV_ROOMS = 12
MAX_PLACES = 200
NAV_AGENTS = 50
WAITING, OTHERS, DECIDED = "waiting", "others", "decided"
SHOWS = {WAITING: "Needs you", OTHERS: "Waiting on others", DECIDED: "Decided"}


def rooms_of(member: User) -> QuerySet[Any]:
    """The member's rooms, latest activity first, each saying whether an agent works there."""
    running = Run.objects.filter(room=OuterRef("pk")).exclude(state=Run.State.FINISHED)
    seen: QuerySet[Any] = Room.objects.visible_to(member)
    listed: QuerySet[Any] = seen.annotate(working=Exists(running)).order_by("-updated_at")
    return listed


def listed_rooms(member: User) -> QuerySet[Any]:
    """The member's rooms with their last message and the number of people in them."""
    last = (
        RoomEvent.objects.filter(room=OuterRef("pk"), kind="message.posted")
        .order_by("-position")
        .values("data")
    )
    people = (
        Participant.objects.filter(room=OuterRef("pk"), left_at=None)
        .order_by()
        .values("room")
        .annotate(number=Count("pk"))
        .values("number")
    )
    listed: QuerySet[Any] = rooms_of(member).annotate(
        last_message=Subquery(last[:1]), people=Coalesce(Subquery(people[:1]), 0)
    )
    return listed


def requests_shown(member: User, show: str) -> QuerySet[ApprovalRequest]:
    """One of the lists of the inbox, in its own order."""
    if show == DECIDED:
        return decided_requests(member)
    if show == OTHERS:
        return requests_waiting_for_others(member).order_by("expires_at", "pk")
    return waiting_requests(member)


def by_agent(rows: QuerySet[ApprovalRequest], slug: str) -> QuerySet[ApprovalRequest]:
    """Keep the questions of one agent, where one is named."""
    return rows.filter(call__run__agent__slug=slug) if slug else rows


def asking_agents(member: User) -> list[tuple[str, str]]:
    """The agents that have asked this member, by slug and name."""
    asked = requests_for(member).order_by("call__run__agent__name")
    pairs = asked.values_list("call__run__agent__slug", "call__run__agent__name").distinct()
    return list(pairs[:NAV_AGENTS])


def waiting_requests(member: User) -> QuerySet[ApprovalRequest]:
    """The questions that wait for this member, the most pressing first."""
    return pending_approvals_for(member).order_by("expires_at", "pk")


def decided_requests(member: User) -> QuerySet[ApprovalRequest]:
    """The questions that this member was asked and that are closed, latest first."""
    return (
        requests_for(member)
        .exclude(state=ApprovalRequest.State.PENDING)
        .order_by("-decided_at", "-pk")
    )


def waiting_count(member: User) -> int:
    """How many questions wait for this member."""
    return pending_approvals_for(member).order_by().count()


def automation_places(member: User) -> list[tuple[str, str]]:
    """Where an agent could work for the member by itself: a word for a form, and its name."""
    seats = (
        Seat.objects.filter(
            room__in=Room.objects.visible_to(member).filter(closed_at=None),
            agent__in=Agent.objects.visible_to(member).filter(enabled=True),
        )
        .select_related("room", "agent")
        .order_by("room__name", "agent__name", "pk")[:MAX_PLACES]
    )
    return [
        (f"{seat.room_id} {seat.agent.slug}", f"{seat.agent.name} in {seat.room.name}")
        for seat in seats
    ]
