"""What do readers ask of runs?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Q
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.runs.errors import RunNotFound
from apps.runs.models import Run


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
