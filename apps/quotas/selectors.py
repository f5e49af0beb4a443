"""What is limited for whom, what has a member used, and which reservations were left behind?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, IntegerField, Q, UUIDField
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.core.prepared import Given, Prepared
from apps.domain.quotas import Limit, Period, Subject, Total, Unit, exceeded, told
from apps.domain.tooling import CallState
from apps.quotas.models import Meter, Price, Quota, Reservation
from apps.quotas.spans import renews_at, spans
from apps.runs.models import Run


@dataclass(frozen=True, slots=True)
class Use:
    """What a member has used of one unit in the current span, and how much that may be."""

    unit: str
    period: str
    used: int
    held: int
    limit: int | None
    renews_at: datetime | None


def limits_for(*, member_id: Any, agent_id: Any = None) -> list[Limit]:
    """Return the limits of a member, and of an agent where one is named: its own before those
    of everybody.
    """
    if agent_id is None:
        rows = _OF_MEMBER.all(member=member_id)
    else:
        rows = _OF_BOTH.all(member=member_id, agent=agent_id)
    chosen: dict[tuple[str, str, str], Quota] = {}
    # Those of everybody first, so that one's own takes their place.
    for row in sorted(rows, key=lambda row: bool(row.member_id or row.agent_id)):
        chosen[row.subject, row.unit, row.period] = row
    return [
        Limit(Subject(row.subject), Unit(row.unit), Period(row.period), row.most)
        for row in chosen.values()
    ]


def _of_member() -> Q:
    theirs = Q(member=None) | Q(member_id=Given("member", IntegerField()))
    return Q(subject=Subject.MEMBER.value) & theirs


def _of_agent() -> Q:
    its = Q(agent=None) | Q(agent_id=Given("agent", UUIDField()))
    return Q(subject=Subject.AGENT.value) & its


_OF_MEMBER = Prepared(lambda: Quota.objects.order_by().filter(_of_member()))
_OF_BOTH = Prepared(lambda: Quota.objects.order_by().filter(_of_member() | _of_agent()))


def price_of(model_name: str) -> Price | None:
    """Return what a model costs: its own price before that of every other model."""
    rows = Price.objects.filter(model_name__in={model_name, ""}).order_by("-model_name")
    return rows.first()


def usage_of(member: User) -> list[Use]:
    """Return what a member has used, and holds, in the spans of this moment."""
    limits = {(limit.unit, limit.period): limit.most for limit in limits_for(member_id=member.pk)}
    now = timezone.now()
    wanted = [(unit, span) for unit in Unit for span in spans(unit, now)]
    meters = {
        (row.unit, row.span): row
        for row in Meter.objects.filter(
            subject=Subject.MEMBER.value,
            subject_id=str(member.pk),
            span__in={span.name for _, span in wanted},
        )
    }
    uses = []
    for unit, span in wanted:
        row = meters.get((unit.value, span.name))
        uses.append(
            Use(
                unit=unit.value,
                period=span.period.value,
                used=row.used if row else 0,
                held=row.held if row else 0,
                limit=limits.get((unit, span.period)),
                renews_at=renews_at(span.period, now),
            )
        )
    return uses


def spent_for_calls(*, member: User, agent: Agent) -> str:
    """Say which quota holds no further call outside until it renews; nothing where all hold one.

    What only has to wait for another call to end is not spent.
    """
    now = timezone.now()
    wanted = {span.name: span for span in spans(Unit.CALLS, now)}
    whose = {Subject.MEMBER: str(member.pk), Subject.AGENT: str(agent.pk)}
    mine = Q()
    for subject, ident in whose.items():
        mine |= Q(subject=subject.value, subject_id=ident)
    rows = Meter.objects.filter(mine, unit=Unit.CALLS.value, span__in=wanted)
    used = {(row.subject, row.span): row.used + row.held for row in rows}
    totals = [
        Total(subject, Unit.CALLS, span, used.get((subject.value, span.name), 0) + 1)
        for subject in whose
        for span in wanted.values()
    ]
    found = exceeded(totals, limits_for(member_id=member.pk, agent_id=agent.pk))
    if found is None:
        return ""
    return told(found, member.name if found.limit.subject is Subject.MEMBER else agent.name)


def left_behind(limit: int) -> Iterable[Any]:
    """Ids of reservations whose call has ended or whose worker has gone, without closing them."""
    ended = Q(call__state=CallState.SETTLED.value) | Q(call=None)
    overtaken = Q(run=None) | ~Q(run__state=Run.State.RUNNING) | ~Q(run__fence=F("fence"))
    return (
        Reservation.objects.filter(
            Q(kind=Reservation.Kind.CALL) & ended | Q(kind=Reservation.Kind.MODEL) & overtaken,
            state=Reservation.State.HELD,
        )
        .order_by("created_at")
        .values_list("pk", flat=True)[:limit]
    )
