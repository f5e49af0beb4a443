"""How many rooms and places in them are there?"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from apps.core.gauges import gauge
from apps.rooms.models import Participant, Room


def read() -> Iterable[Metric]:
    """Return how many rooms are open, and how many people take part in them."""
    rooms = Room.objects.filter(closed_at=None)
    yield gauge("kaizen_rooms_open", "Rooms that are not closed.", rooms.count())
    places = Participant.objects.filter(left_at=None, room__closed_at=None)
    yield gauge("kaizen_rooms_participants", "Places of people in open rooms.", places.count())
