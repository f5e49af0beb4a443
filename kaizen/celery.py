"""Which Celery application do the workers and beat run?"""

import os
from pathlib import Path

from celery import Celery
from celery.signals import beat_init, setup_logging, worker_ready
from django_structlog.celery.steps import DjangoStructLogInitStep

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")

app = Celery("kaizen")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.steps["worker"].add(DjangoStructLogInitStep)
app.autodiscover_tasks()


@setup_logging.connect
def keep_our_logging(**_: object) -> None:
    """Keep Django's logging: a receiver here stops Celery from installing its own."""


@worker_ready.connect
@beat_init.connect
def say_ready(**_: object) -> None:
    """Touch the file by which the supervisor knows that this program can work now."""
    mark = os.environ.get("KAIZEN_READY_FILE")
    if mark:
        Path(mark).touch()
