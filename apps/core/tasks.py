import redis
import structlog
from celery import shared_task

from apps.core import blobs, queue
from apps.core.api.idempotency import forget_old_keys
from apps.core.health import note_sweep

log = structlog.get_logger(__name__)


@shared_task(name="core.sweep")
def sweep() -> None:
    """Ring again for every row that is ready, and let probes know that it was done."""
    queue.sweep()
    try:
        note_sweep()
    except redis.RedisError as gone:
        log.warning("sweep_not_noted", error=type(gone).__name__)


@shared_task(name="core.collect")
def collect() -> None:
    """Throw away bodies that nothing points at, and answers that nobody will ask for again."""
    blobs.collect_blobs()
    forget_old_keys()
