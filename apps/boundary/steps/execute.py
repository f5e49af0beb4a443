"""Step 4, execute: run the handler within its time, and tell apart the ways in which it ended.

An anticipated failure is returned by the tool. What it raises is settled here: a read becomes an
error that the turn can go on from; a write of our own was rolled back, so nothing was saved; a
write outside of us that raised has an unknown end, which is said and never retried.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import structlog

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
    ToolHandedOn,
    ToolOk,
)
from apps.rooms.services import room_last
from apps.runs.models import Call, Run
from apps.tools.contract import CallContext, Tool

log = structlog.get_logger(__name__)

MAX_CHAIN = 2_000
"""Characters of a failure's chain in the log; its end says most."""


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
            with room_last():
                result = tool.handler(arguments, context)
        else:
            result = tool.handler(arguments, context)
    except Exception as raised:  # noqa: BLE001 - a handler may raise anything, and each is settled
        return _raised(tool.spec, call, raised)
    return _returned(tool.spec, result)


def _returned(spec: Specification, result: ToolOk | ToolFailure | ToolHandedOn) -> Executed:
    if isinstance(result, ToolHandedOn):
        if spec.effect_domain is EffectDomain.OURS:
            return Executed(Outcome.OK, result)
        said = "The tool handed on what only a tool of Kaizen's own can."
        return Executed(Outcome.ERROR, ToolFailure(Reason.CONTRACT_ERROR, said))
    if isinstance(result, ToolOk):
        errors = spec.output_errors(result.value)
        if not errors:
            return Executed(Outcome.OK, result)
        said = f"The tool answered something that its contract does not allow. {errors[0]}"
        if spec.effect is not Effect.READ:
            said += " What it was asked to do may have been done all the same."
        return Executed(Outcome.ERROR, ToolFailure(Reason.CONTRACT_ERROR, said))
    outcomes = {Reason.TIMEOUT: Outcome.TIMEOUT, Reason.CANCELLED: Outcome.STOPPED}
    return Executed(outcomes.get(result.reason, Outcome.ERROR), result)


def _raised(spec: Specification, call: Call, raised: Exception) -> Executed:
    log.warning(
        "tool_raised",
        tool=spec.name,
        call=str(call.pk),
        error=type(raised).__name__,
        chain=_chain(raised),
    )
    kind = type(raised).__name__
    if spec.effect is Effect.READ:
        said = (
            f"The tool failed inside ({kind}, reference {call.pk})."
            " It only reads, so it may be called again."
        )
        return Executed(Outcome.RAISED, ToolFailure(Reason.EXECUTION_ERROR, said, retryable=True))
    if spec.effect_domain is EffectDomain.OURS:
        said = f"The tool failed inside ({kind}, reference {call.pk}). Nothing was saved."
        return Executed(Outcome.RAISED, ToolFailure(Reason.EXECUTION_ERROR, said))
    said = (
        f"The tool failed inside ({kind}, reference {call.pk})."
        " Whether it changed anything is unknown; look before trying again."
    )
    return Executed(Outcome.AMBIGUOUS, ToolFailure(Reason.OUTCOME_UNKNOWN, said))


def _chain(raised: Exception) -> str:
    """Return where it failed for whoever runs Kaizen: redacted, bounded, without local values."""
    told = redact_text("".join(traceback.format_exception(raised)))
    return told[-MAX_CHAIN:]
