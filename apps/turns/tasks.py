from typing import Any

from celery import shared_task
from celery.signals import worker_shutting_down

from apps.turns import engine, pulse


@shared_task(name="turns.run_turn")
def run_turn(run_id: str) -> None:
    """Take one run as far as it goes."""
    engine.run_turn(run_id=run_id)


@worker_shutting_down.connect
def give_runs_back(**_: Any) -> None:
    """Let the turns of this process checkpoint and release their runs."""
    pulse.leaving.set()
