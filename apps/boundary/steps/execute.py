"""Step 4, execute: run the handler within its time, and tell apart the ways in which it ended.

An anticipated failure is returned by the tool. What it raises is settled here: a read becomes an
error that the turn can go on from; a write of our own was rolled back, so nothing was saved; a
write outside of us that raised has an unknown end, which is said and never retried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from django.db import transaction

from apps.boundary.crossing import Executed
from apps.core.deadlines import Deadline
from apps.domain.redaction import redact_text
from apps.domain.tooling import (
    Effect,
    EffectDomain,
    Outcome,
    Reason,
    Specification,
    ToolFailure,
    ToolOk,
)
from apps.runs.models import Call, Run
from apps.tools.contract import CallContext, Tool

log = structlog.get_logger(__name__)

MAX_EXCEPTION_TEXT = 500


def execute(
    *,
    tool: Tool,
    run: Run,
    call: Call,
    arguments: dict[str, Any],
    cancelled: Callable[[], bool] = lambda: False,
) -> Executed:
    """Carry out a dispatched call as the member, under its deadline."""
    context = CallContext(
        call_id=call.pk,
        run_id=run.pk,
        room_id=run.room_id,
        member=run.member,
        agent=run.agent,
        deadline=Deadline.after(tool.spec.timeout_s),
        cancelled=cancelled,
    )
    try:
        if tool.spec.effect_domain is EffectDomain.OURS:
            # Effect and settlement commit together; what raises is rolled back to here.
            with transaction.atomic():
                result = tool.handler(arguments, context)
        else:
            result = tool.handler(arguments, context)
    except Exception as raised:  # noqa: BLE001 - a handler may raise anything, and each is settled
        return _raised(tool.spec, call, raised)
    return _returned(result)


def _returned(result: ToolOk | ToolFailure) -> Executed:
    if isinstance(result, ToolOk):
        return Executed(
            outcome=Outcome.OK, reason=None, value=result.value, artifacts=result.artifacts
        )
    outcome = Outcome.TIMEOUT if result.reason is Reason.TIMEOUT else Outcome.ERROR
    if result.reason is Reason.CANCELLED:
        outcome = Outcome.STOPPED
    return Executed(
        outcome=outcome,
        reason=result.reason,
        value=None,
        message=result.message,
        artifacts=result.saved,
        retryable=result.retryable,
    )


def _raised(spec: Specification, call: Call, raised: Exception) -> Executed:
    log.warning(
        "tool_raised",
        tool=spec.name,
        call=str(call.pk),
        error=type(raised).__name__,
        exc_info=raised,
    )
    if spec.effect is Effect.READ:
        text = redact_text(f"{type(raised).__name__}: {raised}")[:MAX_EXCEPTION_TEXT]
        return Executed(Outcome.RAISED, Reason.EXECUTION_ERROR, None, text)
    if spec.effect_domain is EffectDomain.OURS:
        return Executed(
            Outcome.RAISED,
            Reason.EXECUTION_ERROR,
            None,
            f"The tool failed inside ({type(raised).__name__}, reference {call.pk})."
            " Nothing was saved.",
        )
    return Executed(
        Outcome.AMBIGUOUS,
        Reason.OUTCOME_UNKNOWN,
        None,
        f"The tool failed inside ({type(raised).__name__}, reference {call.pk})."
        " Whether it changed anything is unknown; look before trying again.",
    )
