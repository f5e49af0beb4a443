"""What every process of this benchmark does before it works: counted tools, steps that can kill."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")

import django

django.setup()

from django.db.models import F  # noqa: E402

from apps.approvals.models import Receipt  # noqa: E402
from apps.boundary import pipeline  # noqa: E402
from apps.domain.tooling import CallState  # noqa: E402
from apps.quotas.models import Reservation  # noqa: E402
from apps.runs.models import Call  # noqa: E402
from benchmarks.effects import FILE_VARIABLE  # noqa: E402
from benchmarks.kills.traps import lay_out  # noqa: E402
from benchmarks.outside import install, replace  # noqa: E402

BROKEN_VARIABLE = "KAIZEN_BENCHMARK_BROKEN"


def prepare() -> None:
    """Make this process one of the benchmark's."""
    install(Path(os.environ[FILE_VARIABLE]), seconds=0.05)
    if os.environ.get(BROKEN_VARIABLE):
        replace(pipeline, "_settle_silent", _try_again)
    lay_out()


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


prepare()
