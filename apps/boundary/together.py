"""How do several reads run beside each other? Dispatched together, settled in their order.

What a read of ours does inside one transaction, as every call does alone, is here cut in three: all
are decided and dispatched under the run's lock, run without it, and are written down under it
again, in the order in which the model gave them. Where the worker dies meanwhile, each has an
executor that falls silent, and a read that nobody heard of again may simply be made again.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connection

from apps.boundary.crossing import Begun
from apps.boundary.hold import Hold
from apps.boundary.pipeline import begin, settle_executed
from apps.boundary.steps.execute import Execution, execute
from apps.rooms.services import room_last
from apps.runs.bodies import arguments_of
from apps.runs.claims import fenced, lock_call
from apps.runs.models import Call


def cross_together(
    *,
    run_id: Any,
    fence: int,
    calls: Sequence[Any],
    executor: str,
    cancelled: Callable[[], bool],
) -> list[Call]:
    """Let proposed reads cross beside each other; return them as far as each came."""
    crossed: list[Call] = []
    begun: list[Begun] = []
    with fenced(run_id=run_id, fence=fence) as run:
        for call_id in calls:
            step = begin(run=run, call=lock_call(call_id), executor=executor)
            if isinstance(step, Begun):
                begun.append(step)
            else:
                crossed.append(step.call)
    if not begun:
        return crossed
    connection.close()
    with ThreadPoolExecutor(max_workers=len(begun), thread_name_prefix="read") as pool:
        running = [
            # Each thread has its own connection and the correlation of this one.
            pool.submit(contextvars.copy_context().run, _carry_out, one, executor, cancelled)
            for one in begun
        ]
        executed = [future.result() for future in running]
    with room_last():
        for one, result in zip(begun, executed, strict=True):
            settled = settle_executed(begun=one, executed=result, executor=executor)
            crossed.append(settled)
    return crossed


def _carry_out(begun: Begun, executor: str, cancelled: Callable[[], bool]) -> Execution:
    crossing = begun.crossing
    try:
        with Hold(call_id=crossing.call.pk, run_id=crossing.run.pk, executor=executor) as hold:
            return execute(
                tool=begun.tool,
                run=crossing.run,
                call=crossing.call,
                arguments=arguments_of(crossing.call),
                cancelled=lambda: hold.cancelled() or cancelled(),
            )
    finally:
        connection.close()
