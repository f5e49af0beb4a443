from celery import shared_task

from apps.automations import starting


@shared_task(name=starting.START_TASK)
def start_due(automation_id: str) -> None:
    """Start an automation whose time has come."""
    starting.start_due(automation_id=automation_id)
