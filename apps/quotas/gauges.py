"""How much is held for what is under way?"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Count
from prometheus_client.metrics_core import Metric

from apps.core.gauges import gauge_by
from apps.quotas.models import Reservation


def read() -> Iterable[Metric]:
    """Return how many reservations are held, by kind."""
    held = Reservation.objects.filter(state=Reservation.State.HELD).order_by()
    counted = dict(held.values_list("kind").annotate(Count("pk")))
    yield gauge_by(
        "kaizen_reservations_held",
        "What is held under quotas for something that is under way.",
        "kind",
        {**dict.fromkeys(Reservation.Kind.values, 0.0), **counted},
    )
