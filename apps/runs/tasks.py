from celery import shared_task

from apps.runs import services


@shared_task(name="runs.start_waiting")
def start_waiting(input_id: str) -> None:
    """Start the run of an input that waited behind another run."""
    services.start_waiting(input_id=input_id)
