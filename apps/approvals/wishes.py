"""What was decided before a call is made? Modes of members, rules, allow-lists, exact calls.

Everything is read anew at each call, mostly along with what is read anyway: an answer that is kept
anywhere else would outlive its withdrawal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db import transaction
from django.db.models import OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce, JSONObject

from apps.accounts.models import User
from apps.accounts.permissions import Permission, require
from apps.agents.models import Agent
from apps.approvals.errors import RequestNotFound
from apps.approvals.models import (
    ApprovalRule,
    ModeChoice,
    Remembered,
    TriggeredRun,
    UnattendedAllowance,
)
from apps.audit.services import record
from apps.core.errors import NotFound
from apps.domain.policy import (
    Asking,
    AskRule,
    Floor,
    MemberMode,
    Scope,
    Second,
    approval_mode,
    ask_policy,
    asks_unattended,
)
from apps.domain.tooling import Specification
from apps.rooms.selectors import visible_room
from apps.runs.models import Call, Run, Seat

MAX_ANCESTORS = 16


@dataclass(frozen=True, slots=True)
class RunAsking:
    """What a run's member chose and what rules there are, as they were read with the run."""

    mode: str
    rules: Sequence[Any]


def asking_of(run: Run, call: Call, spec: Specification, read: RunAsking) -> Asking:
    """Return what a question about one call rests on; more is read only where it may ask."""
    asking = Asking(
        member_mode=MemberMode(read.mode),
        policy=ask_policy(spec, _parsed(read.rules)),
        trigger=run.trigger,
    )
    if run.unattended and asks_unattended(spec, run.trigger):
        return replace(asking, allowed_unattended=_allowed_unattended(run, spec.name))
    if approval_mode(spec, asking).may_remember:
        return replace(asking, remembered=_is_remembered(run, call))
    return asking


def asking_of_all(run: Run, specs: Iterable[Specification]) -> dict[str, Asking]:
    """Read the same for several tools at once, before any arguments are known."""
    row = (
        Run.objects.filter(pk=run.pk)
        .order_by()
        .annotate(_mode=chosen_mode(), _rules=_rules(Q()))
        .values("_mode", "_rules", "trigger")
        .get()
    )
    rules = _parsed(row["_rules"])
    return {
        spec.name: Asking(
            member_mode=MemberMode(row["_mode"]),
            policy=ask_policy(spec, rules),
            trigger=row["trigger"],
        )
        for spec in specs
    }


def choices_of(member: User) -> QuerySet[ModeChoice]:
    """How a member wants to be asked: in general first, then by agent and room."""
    return (
        ModeChoice.objects.filter(member=member)
        .select_related("agent", "room")
        .order_by("room__name", "agent__name", "pk")
    )


def mode_in(*, member: User, room_id: Any, agent: Agent) -> tuple[str, str]:
    """Return how a member is asked by an agent in a room, and the member's general mode."""
    found = {
        choice.agent_id: str(choice.mode)
        for choice in ModeChoice.objects.filter(member=member).filter(
            Q(agent=None) | Q(agent=agent, room_id=room_id)
        )
    }
    general = found.get(None, MemberMode.AS_DECLARED.value)
    return found.get(agent.pk, ""), general


@transaction.atomic
def choose_mode(
    *, member: User, mode: str, room_id: Any = None, agent_slug: str = ""
) -> ModeChoice:
    """Let a member say how they want to be asked: in general, or by one agent in one room."""
    seat = _seat(member, room_id, agent_slug) if agent_slug else None
    chosen, _ = ModeChoice.objects.update_or_create(
        member=member,
        agent=None if seat is None else seat.agent,
        room=None if seat is None else seat.room,
        defaults={"mode": MemberMode(mode).value},
    )
    record(
        actor=member,
        action="approval_mode.chosen",
        subject=chosen,
        detail={"mode": chosen.mode, "room": str(room_id or ""), "agent": agent_slug},
    )
    return chosen


@transaction.atomic
def forget_mode(*, member: User, room_id: Any = None, agent_slug: str = "") -> None:
    """Let the more general choice count again."""
    found = ModeChoice.objects.filter(member=member)
    if agent_slug:
        found = found.filter(agent__slug=agent_slug, room_id=str(room_id))
    else:
        found = found.filter(agent=None)
    choice = found.first()
    if choice is None:
        return
    record(
        actor=member,
        action="approval_mode.forgotten",
        subject=choice,
        detail={"mode": choice.mode, "room": str(room_id or ""), "agent": agent_slug},
    )
    choice.delete()


def remembered_by(member: User) -> QuerySet[Remembered]:
    """The exact calls that a member allowed once for all, newest first."""
    return Remembered.objects.filter(member=member).select_related("room").order_by("-created_at")


def remember(*, call: Call, member: User) -> None:
    """Let exactly this call pass in its room from now on, for this member's runs."""
    kept, made = Remembered.objects.get_or_create(
        member=member,
        room_id=call.run.room_id,
        tool=call.tool,
        arguments_digest=call.arguments_digest,
        descriptor_digest=call.descriptor_digest,
    )
    if made:
        record(
            actor=member,
            action="approval.remembered",
            subject=kept,
            digest=call.arguments_digest,
            detail={"tool": call.tool, "call": str(call.pk)},
        )


@transaction.atomic
def forget(*, remembered_id: Any, member: User) -> None:
    """Ask again about a call that was allowed once for all."""
    kept = Remembered.objects.filter(pk=remembered_id, member=member).first()
    if kept is None:
        raise RequestNotFound("There is no such call that you allowed.")
    record(
        actor=member,
        action="approval.forgotten",
        subject=kept,
        digest=kept.arguments_digest,
        detail={"tool": kept.tool},
    )
    kept.delete()


def name_trigger(*, run: Run, name: str) -> None:
    """Say which mail trigger started a run."""
    TriggeredRun.objects.update_or_create(run=run, defaults={"name": name})


def _seat(member: User, room_id: Any, agent_slug: str) -> Seat:
    room = visible_room(room_id=room_id, user=member)
    require(member, Permission.ROOM_TAKE_PART, room)
    seats = Seat.objects.select_related("agent", "room")
    seat = seats.filter(room=room, agent__slug=agent_slug).first()
    if seat is None:
        raise NotFound("That agent has no place in this room.", field="agent")
    return seat


def chosen_mode() -> Any:
    """The mode that a run's member chose, to be read with the run: here, in general, or none."""
    mine = ModeChoice.objects.filter(member=OuterRef("member"))
    here = mine.filter(agent=OuterRef("agent"), room=OuterRef("room"))
    return Coalesce(
        Subquery(here.values("mode")[:1]),
        Subquery(mine.filter(agent=None).values("mode")[:1]),
        Value(MemberMode.AS_DECLARED.value),
    )


def rules_about(tool: Any) -> Any:
    """The rules that may cover a tool of this name, to be read with something else."""
    return _rules(Q(tool="") | Q(tool=tool))


def _rules(which: Q) -> Any:
    return ArraySubquery(
        ApprovalRule.objects.filter(which)
        .order_by()
        .values(
            rule=JSONObject(
                family="family",
                surface="surface",
                tool="tool",
                floor="floor",
                never_allowed="never_allowed",
                second="second",
                second_for="second_for",
                expires_after_s="expires_after_s",
            )
        )
    )


def rules_in_force() -> list[AskRule]:
    """Return every rule that administrators keep."""
    rows: Any = ApprovalRule.objects.order_by().values(
        "family",
        "surface",
        "tool",
        "floor",
        "never_allowed",
        "second",
        "second_for",
        "expires_after_s",
    )
    return _parsed(rows)


def _parsed(rows: Iterable[dict[str, Any]]) -> list[AskRule]:
    return [
        AskRule(
            family=row["family"],
            surface=row["surface"],
            tool=row["tool"],
            floor=Floor(row["floor"]),
            never_allowed=row["never_allowed"],
            second=Second(row["second"]),
            second_for=Scope(row["second_for"]),
            expires_after_s=row["expires_after_s"],
        )
        for row in rows
    ]


def _is_remembered(run: Run, call: Call) -> bool:
    return Remembered.objects.filter(
        member_id=run.member_id,
        room_id=run.room_id,
        tool=call.tool,
        arguments_digest=call.arguments_digest,
        descriptor_digest=call.descriptor_digest,
    ).exists()


def _allowed_unattended(run: Run, tool: str) -> bool:
    """Tell whether the trigger behind a run, or behind the run that it serves, allows a tool."""
    allowed = UnattendedAllowance.objects.filter(trigger=run.trigger, tool=tool)
    if run.automation_id is not None:
        # A run that works for another one carries the same automation.
        return allowed.filter(automation=run.automation_id).exists()
    root = run
    for _ in range(MAX_ANCESTORS):
        if root.parent_id is None:
            break
        root = Run.objects.only("parent_id", "trigger").get(pk=root.parent_id)
    named = TriggeredRun.objects.filter(run_id=root.pk).values("name")
    return allowed.filter(automation=None, name__in=named).exists()
