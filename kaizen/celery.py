"""Which Celery application do the workers and beat run?"""

import os
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import beat_init, celeryd_after_setup, setup_logging, worker_ready
from django_structlog.celery.steps import DjangoStructLogInitStep

from kaizen.garbage import look_seldom

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")

app = Celery("kaizen")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.steps["worker"].add(DjangoStructLogInitStep)
app.autodiscover_tasks()


@setup_logging.connect
def keep_our_logging(**_: object) -> None:
    """Keep Django's logging: a receiver here stops Celery from installing its own."""


@celeryd_after_setup.connect
def listen_for_this_node(instance: Any, **_: object) -> None:
    """Let whoever carries out calls also hear those that have to be carried out on this node."""
    # Both need the settings and the apps, which are there by now.
    from apps.core.queue import node_queue
    from apps.sandbox.leases import this_node

    queues = instance.app.amqp.queues
    if "calls" in queues.consume_from:
        queues.select_add(node_queue(this_node()))


@worker_ready.connect
@beat_init.connect
def everything_is_loaded(**_: object) -> None:
    """Look for garbage seldom, now that all is there that stays for good."""
    look_seldom()


@worker_ready.connect
@beat_init.connect
def say_ready(**_: object) -> None:
    """Touch the file by which the supervisor knows that this program can work now."""
    mark = os.environ.get("KAIZEN_READY_FILE")
    if mark:
        Path(mark).touch()
