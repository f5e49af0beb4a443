"""What does a call that has no outcome yet wait for? Its row says so, whoever asks."""

from __future__ import annotations

from enum import StrEnum

from apps.domain.tooling import CallState
from apps.runs.models import Call


class WaitsFor(StrEnum):
    """Who has to do something before a call can go on."""

    PERSON = "person"
    WORKER = "worker"
    SYSTEM = "system"
    AGENT = "agent"


def waits_for(call: Call) -> WaitsFor | None:
    """Return whom a call waits for, by its committed row; none where it is under way or settled.

    A call that asks a person still says so for the moment between their yes and its start.
    """
    if call.state == CallState.WAITING.value:
        return WaitsFor.PERSON if call.needs_receipt else WaitsFor.WORKER
    if call.state != CallState.DISPATCHED.value or call.executor_expires_at is not None:
        return None
    # Nobody executes it. One that was handed on to another run says so in its executor's name.
    return WaitsFor.AGENT if call.executor else WaitsFor.SYSTEM


def is_paused(call: Call) -> bool:
    """Tell whether a call waits for another system's answer, and for nobody of ours."""
    return waits_for(call) is WaitsFor.SYSTEM
