from celery import shared_task

from apps.proposals import services


@shared_task(name=services.TEST_TASK)
def execute_test(test_id: str) -> None:
    """Run one queued test in the sandbox."""
    services.execute_test(test_id=test_id)


@shared_task(name="proposals.collect_dependencies")
def collect_dependencies() -> None:
    """Throw away installed dependencies that nobody needs any more."""
    services.collect_dependencies()
