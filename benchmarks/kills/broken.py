"""A boundary that takes an unknown end for none: whoever counts outside has to find it.

Nothing of this exists outside the benchmarks.
"""

from __future__ import annotations

from typing import Any

from django.db.models import F

from apps.approvals.models import Receipt
from apps.boundary import pipeline
from apps.domain.tooling import CallState
from apps.quotas.models import Reservation
from apps.runs.models import Call
from benchmarks.outside import replace

SEAM = "settle_silent"
"""Where the boundary judges a call whose executor fell silent."""


def break_the_unknown_end() -> None:
    """Let this process make such a call once more."""
    replace(pipeline, SEAM, _try_again)


def _try_again(crossing: Any) -> None:
    """What may never be done: take an unknown end for none, and make the call once more."""
    call = crossing.call
    if not Call.objects.silent().filter(pk=call.pk).exists():
        return
    Receipt.objects.filter(call=call).update(spent_at=None)
    # What a call holds of its quota would keep it from being consumed once more.
    Reservation.objects.filter(call=call).delete()
    Call.objects.filter(pk=call.pk).update(
        state=CallState.WAITING.value,
        executor="",
        dispatched_at=None,
        attempts=F("attempts") * 0,
    )
