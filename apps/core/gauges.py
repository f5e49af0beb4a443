"""How do things stand at the moment of a scrape? Read from the stores, never counted along."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import redis
import structlog
from django.db import DatabaseError
from django.db.models import Min, QuerySet
from django.utils import timezone
from prometheus_client import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from apps.core import metrics
from apps.core.counted import families
from apps.core.health import Word, look_around
from apps.core.queue import queues

log = structlog.get_logger(__name__)

MOST_READY = 10_000
"""Ready rows that are counted of one kind; more are as bad."""

_more: list[Callable[[], Iterable[Metric]]] = []


def register_gauges(read: Callable[[], Iterable[Metric]]) -> None:
    """Let an app above say how its part of the house stands."""
    _more.append(read)


def exposition() -> bytes:
    """Return everything that is measured, in Prometheus' text format."""
    return bytes(generate_latest(_Everything()))


class _Everything:
    """All metrics of one scrape, in the shape that the library's writer asks for."""

    def collect(self) -> Iterable[Metric]:
        yield from _counted()
        parts = look_around()
        yield _family(
            "kaizen_part_ready",
            "Whether a part answers as it should.",
            ["part"],
            {(part.name,): part.word is Word.OK for part in parts},
        )
        if any(part.name == "database" and part.word is not Word.OK for part in parts):
            return
        for read in (_queues, *_more):
            try:
                # As a list: a part that fails is left out whole.
                yield from list(read())
            except (DatabaseError, redis.RedisError) as gone:
                log.warning("gauge_not_read", of=read.__module__, error=type(gone).__name__)


def _counted() -> Iterable[Metric]:
    board = metrics.board
    try:
        sums, shared = board.gather(), 1.0
    except redis.RedisError as gone:
        # What this process counted is better than nothing, and the scrape says that it is less.
        log.warning("metrics_not_gathered", error=type(gone).__name__)
        sums, shared = board.own(), 0.0
    yield from families(metrics.registry, sums)
    yield _family(
        "kaizen_metrics_complete",
        "1 where every process's counts are in this scrape, 0 where only this one's are.",
        [],
        {(): shared},
    )


def _queues() -> Iterable[Metric]:
    depth: dict[tuple[str, ...], float] = {}
    age: dict[tuple[str, ...], float] = {}
    for name, many, oldest in waiting_work():
        depth[name,] = many
        age[name,] = oldest
    yield _family("kaizen_queue_ready", "Rows that are ready to be worked on.", ["kind"], depth)
    yield _family(
        "kaizen_queue_oldest_seconds",
        "How long the oldest ready row has not been touched.",
        ["kind"],
        age,
    )


def waiting_work(most: int = MOST_READY) -> Iterator[tuple[str, int, float]]:
    """Name each kind of work, how many rows of it are ready, and the oldest one's age in seconds.

    Raises DatabaseError.
    """
    for queue in queues():
        ready = queue.ready(most)
        ids = list(ready)
        yield queue.name, len(ids), _oldest(ready, ids)


def _oldest(ready: Iterable[Any], ids: list[Any]) -> float:
    if not ids or not isinstance(ready, QuerySet):
        return 0.0
    names = {field.name for field in ready.model._meta.concrete_fields}
    moment = "updated_at" if "updated_at" in names else "created_at"
    rows = ready.model._default_manager.filter(pk__in=ids[:1000])
    return age_of(rows.aggregate(first=Min(moment))["first"])


def age_of(moment: Any) -> float:
    """Return the seconds since a moment, and none where there is no moment."""
    return 0.0 if moment is None else max(0.0, (timezone.now() - moment).total_seconds())


def gauge(name: str, words: str, value: float) -> Metric:
    """Return one number as a metric."""
    return _family(name, words, [], {(): value})


def gauge_by(name: str, words: str, label: str, values: dict[str, float]) -> Metric:
    """Return one number for each value of a label as a metric."""
    return _family(name, words, [label], {(key,): value for key, value in values.items()})


def _family(name: str, words: str, labels: list[str], values: dict[tuple[str, ...], Any]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=labels)
    for key, value in values.items():
        family.add_metric(list(key), float(value))
    return family
