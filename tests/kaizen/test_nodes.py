"""A call that belongs to one machine is heard there alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from celery.app.amqp import AMQP

from apps.core.queue import node_queue, ring_at
from apps.sandbox.leases import this_node
from kaizen.celery import app, listen_for_this_node


def heard(*queues: str) -> set[str]:
    """Return what a worker of these queues hears after it was set up."""
    amqp = AMQP(app)
    amqp.queues.select(list(queues))
    listen_for_this_node(instance=SimpleNamespace(app=SimpleNamespace(amqp=amqp)))
    return set(amqp.queues.consume_from)


def test_whoever_carries_out_calls_hears_those_of_its_machine_too() -> None:
    assert heard("calls", "sweeps") == {"calls", "sweeps", f"calls.{this_node()}"}
    assert heard("turns", "sweeps") == {"turns", "sweeps"}


@pytest.mark.django_db(transaction=True)
def test_a_bell_of_a_machine_lies_in_its_queue_alone() -> None:
    ring_at("far-away", "boundary.execute_call", call_id="1")
    with app.connection_for_read() as connection:
        queue = node_queue("far-away")(connection.channel())
        message: Any = queue.get(no_ack=True)
        assert message is not None
        assert message.headers["task"] == "boundary.execute_call"
        assert queue.get(no_ack=True) is None
