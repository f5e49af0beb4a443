"""Bells go to one queue each, and no message outlives its use."""

import time

import pytest
from kombu.exceptions import OperationalError

from kaizen.celery import app
from kaizen.supervisor.ports import LOOPBACK, free_port


def test_each_queue_has_an_exchange_and_a_key_of_its_own() -> None:
    queues = app.amqp.queues
    assert {name: (q.exchange.name, q.routing_key) for name, q in queues.items()} == {
        name: (name, name) for name in ("turns", "calls", "sweeps")
    }


def test_every_task_has_its_queue() -> None:
    def queue_of(task: str) -> str:
        return app.amqp.router.route({}, task)["queue"].name

    assert queue_of("turns.run_turn") == "turns"
    assert queue_of("boundary.execute_call") == "calls"
    assert queue_of("sandbox.execute_job") == "calls"
    assert queue_of("core.sweep") == "sweeps"
    assert queue_of("audit.seal") == "sweeps"


def test_a_sweep_that_nobody_heard_in_time_is_dropped() -> None:
    for entry in app.conf.beat_schedule.values():
        assert entry["options"]["expires"] <= entry["schedule"]


def test_messages_carry_json_only_and_nobody_keeps_results() -> None:
    assert app.conf.accept_content == ["json"]
    assert app.conf.task_serializer == "json"
    assert app.conf.task_ignore_result is True
    assert app.conf.result_backend is None
    assert app.conf.task_acks_late is False


def test_a_bell_that_cannot_ring_costs_a_moment_and_not_seconds() -> None:
    began = time.monotonic()
    url = f"redis://{LOOPBACK}:{free_port()}/0"
    with app.connection_for_write(url=url) as nowhere, pytest.raises(OperationalError):
        app.send_task("turns.none", connection=nowhere, retry=False)
    assert time.monotonic() - began < 5
