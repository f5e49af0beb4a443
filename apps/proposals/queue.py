"""How is the review queue doing? Figures for those who work through it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Avg, Count, DurationField, ExpressionWrapper, F, Min, Q
from django.utils import timezone

from apps.accounts.models import User
from apps.core.admin import ago, span
from apps.proposals.models import PackageProposal

State = PackageProposal.State
RECENT = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """What stands above the queue."""

    waiting: int
    oldest: str
    own: int
    decided: int
    usual: str
    states: Mapping[str, int]


def queue_figures(*, reviewer: User) -> QueueFigures:
    """Count what waits and how long decisions usually take, in one query."""
    decided = Q(state__in=[State.APPROVED, State.REJECTED])
    recent = decided & Q(decided_at__gte=timezone.now() - RECENT)
    took = ExpressionWrapper(F("decided_at") - F("submitted_at"), output_field=DurationField())
    waits = Q(state=State.SUBMITTED)
    found = PackageProposal.objects.exclude(submitted_at=None).aggregate(
        submitted=Count("pk", filter=waits),
        oldest=Min("submitted_at", filter=waits),
        own=Count("pk", filter=waits & (Q(author=reviewer) | Q(writers__contains=[reviewer.pk]))),
        recent=Count("pk", filter=recent),
        usual=Avg(took, filter=recent),
        approved=Count("pk", filter=Q(state=State.APPROVED)),
        rejected=Count("pk", filter=Q(state=State.REJECTED)),
        withdrawn=Count("pk", filter=Q(state=State.WITHDRAWN)),
    )
    return QueueFigures(
        waiting=found["submitted"],
        oldest=f"oldest {ago(found['oldest'])}" if found["oldest"] else "nothing waits",
        own=found["own"],
        decided=found["recent"],
        usual=_usual(found["usual"]),
        states={
            "submitted": found["submitted"],
            "approved": found["approved"],
            "rejected": found["rejected"],
            "withdrawn": found["withdrawn"],
        },
    )


def _usual(took: timedelta | None) -> str:
    # People decide in minutes at best; anything below is one of tests and demonstrations.
    return "< 1 min" if took is not None and took < timedelta(minutes=1) else span(took)
