from celery import shared_task

from apps.core import blobs, queue
from apps.core.api.idempotency import forget_old_keys


@shared_task(name="core.sweep")
def sweep() -> None:
    """Ring again for every row that is ready."""
    queue.sweep()


@shared_task(name="core.collect")
def collect() -> None:
    """Throw away bodies that nothing points at, and answers that nobody will ask for again."""
    blobs.collect_blobs()
    forget_old_keys()
