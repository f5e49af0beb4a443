"""Who may write for a run right now? The claim, the fence, and the one lock that guards both.

Reading the fence is not enough: under READ COMMITTED a stale writer's insert can commit after a
takeover. So every fenced transaction locks the run row first, through `fenced`, and compares.
Lock order everywhere: run, call, receipt, artifact, blob, meter, room.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Case, CharField, F, Q, QuerySet, Subquery, UUIDField, When
from django.db.models.functions import Now

from apps.core.prepared import Asked, Given, Prepared, both
from apps.rooms.services import room_last
from apps.runs.errors import RunNotFound, RunOver, StaleFence
from apps.runs.models import Call, Run

CLAIM_SECONDS = 15
"""A worker renews its claim three times within this; after it, another worker may take over."""


@dataclass(frozen=True, slots=True)
class RunHold:
    """Under which hold on a run something is done. A tool hands it on and looks at nothing of it.

    Of two holds on the same run the one with the greater fence is the later.
    """

    run_id: uuid.UUID
    fence: int


def claim_run(*, run_id: Any, worker: str) -> int | None:
    """Take a queued run, or one whose worker fell silent; return the new fence, or None.

    The database's clock decides, in one conditional update. A run that was left behind is counted
    as broken off once more; whoever gets somewhere with it sets the count back.
    """
    open_to_claim = Q(state=Run.State.QUEUED) | Q(
        state=Run.State.RUNNING, claim_expires_at__lt=Now()
    )
    due = Q(retry_at=None) | Q(retry_at__lte=Now())
    taken = Run.objects.filter(open_to_claim, due, pk=run_id, runtime=Run.Runtime.KAIZEN).update(
        state=Run.State.RUNNING,
        breaks=F("breaks") + Case(When(state=Run.State.RUNNING, then=1), default=0),
        fence=F("fence") + 1,
        claimed_by=worker,
        claim_expires_at=Now() + timedelta(seconds=CLAIM_SECONDS),
        retry_at=None,
    )
    if taken != 1:
        return None
    # Only this worker can have raised the fence since: the claim is fresh and names it.
    return Run.objects.filter(pk=run_id, claimed_by=worker).values_list("fence", flat=True).first()


def renew_claim(*, run_id: Any, fence: int, spent_ms: int = 0) -> bool:
    """Hold on to a run, and count the work; False says that it was taken over or has ended."""
    return (
        Run.objects.filter(pk=run_id, fence=fence, state=Run.State.RUNNING).update(
            claim_expires_at=Now() + timedelta(seconds=CLAIM_SECONDS),
            spent_ms=F("spent_ms") + spent_ms,
        )
        == 1
    )


def release_claim(*, run_id: Any, fence: int) -> None:
    """Give a run back to the queue, unfinished, for any worker to go on with."""
    Run.objects.filter(pk=run_id, fence=fence, state=Run.State.RUNNING).update(
        state=Run.State.QUEUED, claimed_by="", claim_expires_at=None
    )


@contextmanager
def fenced(*, run_id: Any, fence: int) -> Iterator[Run]:
    """Open a transaction in which this worker alone may write for the run."""
    with room_last():
        run = lock_run(run_id)
        demand_hold(run, fence)
        yield run


def demand_hold(run: Run, fence: int) -> None:
    """Refuse unless the run, whose row is locked, is still held under this fence."""
    if run.state == Run.State.FINISHED:
        raise RunOver("This run has ended.")
    if run.fence != fence or run.state != Run.State.RUNNING:
        raise StaleFence("Another worker has taken this run over.")


def lock_call(call_id: Any) -> Call:
    """Lock a call's row, after its run's, and return it as it now stands."""
    call = _CALL.first(call=call_id)
    if call is None:
        raise Call.DoesNotExist("There is no such call.")
    return call


_CALL = Prepared(
    lambda: (
        Call.objects.select_for_update(no_key=True).order_by().filter(pk=Given("call", UUIDField()))
    )
)


def lock_run(run_id: Any) -> Run:
    """Lock a run's row, first in the lock order, and return it as it now stands."""
    run = _RUN.first(run=run_id)
    if run is None:
        raise RunNotFound("There is no such run.")
    return run


def lock_run_and_call(call_id: Any) -> tuple[Run, Call] | None:
    """Lock the run of a call, then the call, and return both; None without such a call."""
    runs, calls = both(_RUN_OF_CALL.asked(call=call_id), _CALL.asked(call=call_id))
    return (runs[0], calls[0]) if calls else None


def _whole() -> QuerySet[Run]:
    rows: QuerySet[Run] = (
        Run.objects.select_for_update(no_key=True, of=("self",))
        .select_related("room", "agent", "member")
        # Every call passes here, and a persona may be long.
        .defer("agent__persona")
        .order_by()
    )
    return rows


_RUN = Prepared(lambda: _whole().filter(pk=Given("run", UUIDField())))
_RUN_OF_CALL = Prepared(
    # The catalog is large, and one entry of it is read on its own where it counts.
    lambda: (
        _whole()
        .defer("catalog")
        .filter(
            pk=Subquery(
                Call.objects.order_by().filter(pk=Given("call", UUIDField())).values("run_id")[:1]
            )
        )
    )
)


def locking_run_of_token(token_hash: str) -> Asked[Run]:
    """Ask to lock the live run that a token stands for, first in the lock order: is it held, and to
    which key is the token bound?

    Of the row nothing more than that is read: what decides is read after the lock.
    """
    return _OF_TOKEN.asked(token=token_hash)


def _of_token() -> QuerySet[Run]:
    rows: QuerySet[Run] = (
        Run.objects.select_for_update(no_key=True, of=("self",))
        .filter(
            token_hash=Given("token", CharField()),
            token_expires_at__gt=Now(),
            member__is_active=True,
        )
        .exclude(state=Run.State.FINISHED)
        .order_by()
        .only("state", "fence", "token_key")
    )
    return rows


_OF_TOKEN = Prepared(_of_token)
