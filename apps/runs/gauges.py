"""How many runs and calls stand where?"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Count
from prometheus_client.metrics_core import Metric

from apps.core.gauges import gauge_by
from apps.domain.tooling import CallState
from apps.runs.models import Call, Run


def read() -> Iterable[Metric]:
    """Return what is open. What has ended is counted as it ends, and never counted up here."""
    runs = Run.objects.exclude(state=Run.State.FINISHED)
    yield gauge_by(
        "kaizen_runs_open",
        "Runs that have not ended.",
        "state",
        _by_state(runs, [state for state in Run.State.values if state != Run.State.FINISHED]),
    )
    calls = Call.objects.exclude(state=CallState.SETTLED.value)
    yield gauge_by(
        "kaizen_calls_open",
        "Calls that have no outcome yet.",
        "state",
        _by_state(calls, [state.value for state in CallState if state is not CallState.SETTLED]),
    )


def _by_state(rows: object, states: list[str]) -> dict[str, float]:
    counted = rows.order_by().values_list("state").annotate(Count("pk"))  # type: ignore[attr-defined]
    return {**dict.fromkeys(states, 0.0), **dict(counted)}
