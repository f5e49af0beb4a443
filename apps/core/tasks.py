from celery import shared_task

from apps.core import blobs, queue


@shared_task(name="core.sweep")
def sweep() -> None:
    """Ring again for every row that is ready."""
    queue.sweep()


@shared_task(name="core.collect")
def collect() -> None:
    """Throw away bodies that nothing points at."""
    blobs.collect_blobs()
