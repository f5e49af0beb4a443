"""Step 4, execute: run the handler within its time, and tell apart the ways in which it ended.

An anticipated failure is returned by the tool. What it raises is settled here: a read becomes an
error that the turn can go on from; a write of our own was rolled back, so nothing was saved; a
write outside of us that raised has an unknown end, which is said and never retried. And a result
that itself reports a failure is one, whoever handed it back as a success.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import redis
import structlog
from django.db import DatabaseError

from apps.approvals.pauses import give_link
from apps.boundary.crossing import Executed
from apps.core.deadlines import Deadline
from apps.core.errors import Conflict, Forbidden, Invalid, NotFound, Refusal, Unavailable
from apps.core.internal import internal_hosts
from apps.core.statements import OutOfTime, bounded, was_cancelled
from apps.domain.failures import reported_failure
from apps.domain.projection import bound, declared_only
from apps.domain.redaction import redact, redact_text
from apps.domain.tooling import (
    Effect,
    EffectDomain,
    FaultDomain,
    Outcome,
    Paused,
    Reason,
    Specification,
    ToolFailure,
    ToolHandedOn,
    ToolOk,
    ToolPrepared,
    ToolResult,
)
from apps.rooms.services import room_last
from apps.runs.claims import RunHold
from apps.runs.errors import AlreadySettled, RunOver, StaleFence
from apps.runs.models import Call, Run
from apps.tools.contract import CallContext, CallTool, Tool, no_inner_calls, say_nothing
from apps.tools.credentials import issued

log = structlog.get_logger(__name__)

MAX_CHAIN = 2_000
"""Bytes of a failure's chain in the log; its end says most."""
MAX_RAISED = 300
"""Characters of what a read raised that the model gets to read."""
KEEPING_S = 30.0
"""Seconds for keeping what a tool prepared; locks are held meanwhile."""
MAX_REPORTED = 1_500
"""Characters of a body that reports a failure."""

# Their words name hosts, statements and values of ours.
_INFRASTRUCTURE = (DatabaseError, OSError, redis.RedisError)
# What our own refusals come to, where a tool lets one through as it was raised.
_REFUSED = (
    (NotFound, Reason.NOT_FOUND),
    (Forbidden, Reason.PERMISSION_DENIED),
    (Invalid, Reason.INVALID_ARGUMENTS),
    (Conflict, Reason.CONFLICT),
    (Unavailable, Reason.DEPENDENCY_UNAVAILABLE),
)
# These say that the turn itself is over or not this worker's any more; nothing settles them.
_LIFECYCLE = (StaleFence, RunOver, AlreadySettled)


class _Undone(Exception):
    """A failure of our own that saved nothing: carried out of the savepoint, which undoes it."""

    def __init__(self, executed: Executed) -> None:
        super().__init__()
        self.executed = executed


Execution = Executed | Paused | ToolHandedOn | ToolPrepared
"""How a tool's code ended, what is still to be kept of it, or who has the call now."""
# Nothing of these outlives a call that was not settled: what they keep commits with its end.
_UNDONE_WHOLE = frozenset({EffectDomain.OURS, EffectDomain.CHECKPOINTED})


def execute(
    *,
    tool: Tool,
    run: Run,
    call: Call,
    arguments: dict[str, Any],
    cancelled: Callable[[], bool] = lambda: False,
    say: Callable[[str, bytes], None] = say_nothing,
    call_tool: CallTool = no_inner_calls,
) -> Execution:
    """Carry out a dispatched call as the member, under its deadline."""
    deadline = Deadline.after(tool.spec.timeout_s)
    executed: Execution
    try:
        with issued(binding=call.binding, call_id=call.pk, deadline=deadline) as credential:
            context = CallContext(
                call_id=call.pk,
                run_id=run.pk,
                room_id=run.room_id,
                member=run.member,
                agent=run.agent,
                deadline=deadline,
                cancelled=cancelled,
                wait_link=_Link(call, tool.spec),
                credential=credential,
                hold=RunHold(run.pk, run.fence),
                say=say,
                call_tool=call_tool,
            )
            if tool.spec.effect_domain is EffectDomain.OURS:
                executed = _ours(tool, arguments, context)
            else:
                executed = _elsewhere(tool, arguments, context)
    except _LIFECYCLE:
        raise
    except Exception as raised:  # noqa: BLE001 - a handler may raise anything, and each is settled
        return _raised(tool.spec, call, raised, stopped=cancelled())
    if isinstance(executed, Executed):
        _log_failure(tool.spec, call, executed)
    return executed


def keep(*, tool: Tool, call: Call, prepared: ToolPrepared) -> Executed:
    """Keep what a tool prepared, inside the transaction that settles its call, or none of it."""
    try:
        with bounded(Deadline.after(KEEPING_S)), room_last():
            executed = returned(tool.spec, prepared.keep())
            failure = executed.failure
            if failure is not None and not failure.saved and not failure.keeps_notes:
                raise _Undone(executed)
    except _Undone as undone:
        executed = undone.executed
    except _LIFECYCLE:
        raise
    except Exception as raised:  # noqa: BLE001 - the savepoint undid it, and the call still settles
        return _raised(tool.spec, call, raised, stopped=False)
    _log_failure(tool.spec, call, executed)
    return executed


def _elsewhere(
    tool: Tool, arguments: dict[str, Any], context: CallContext
) -> Executed | Paused | ToolPrepared:
    """Run a handler whose effect lies outside: what it did is done, whatever it says of it."""
    result = tool.handler(arguments, context)
    if isinstance(result, Paused) and tool.spec.pauses is not None:
        return result
    if isinstance(result, ToolPrepared) and tool.spec.effect_domain is EffectDomain.CHECKPOINTED:
        return result
    return returned(tool.spec, result)


def _ours(tool: Tool, arguments: dict[str, Any], context: CallContext) -> Executed | ToolHandedOn:
    """Run a handler of our own domain: its effect commits with its settlement, or not at all."""
    try:
        with bounded(context.deadline), room_last():
            result = tool.handler(arguments, context)
            if isinstance(result, ToolHandedOn):
                return result
            executed = returned(tool.spec, result)
            failure = executed.failure
            if failure is not None and not failure.saved and not failure.keeps_notes:
                raise _Undone(executed)
    except _Undone as undone:
        return undone.executed
    return executed


class _Link:
    """The link of a call that may pause, made at its first use and the same at every other."""

    def __init__(self, call: Call, spec: Specification) -> None:
        self._call = call
        self._pauses = spec.pauses
        self._link = ""

    def __call__(self) -> str:
        """Return the link."""
        if self._pauses is None:
            raise LookupError("This tool does not declare that it pauses.")
        self._link = self._link or give_link(call=self._call, pauses=self._pauses)
        return self._link


def returned(spec: Specification, result: ToolResult) -> Executed:
    """Tell how an execution ended by what was handed back: by the tool, or in its place."""
    if isinstance(result, Paused | ToolHandedOn | ToolPrepared):
        said = "The tool said that its call goes on elsewhere, and does not declare that it may."
        return Executed(Outcome.ERROR, ToolFailure(Reason.CONTRACT_ERROR, said))
    if isinstance(result, ToolFailure):
        outcomes = {Reason.TIMEOUT: Outcome.TIMEOUT, Reason.CANCELLED: Outcome.STOPPED}
        if spec.effect is not Effect.READ and spec.effect_domain is EffectDomain.EXTERNAL:
            # The tool itself says that nobody knows what became of its write.
            outcomes[Reason.OUTCOME_UNKNOWN] = Outcome.AMBIGUOUS
        return Executed(outcomes.get(result.reason, Outcome.ERROR), _honest(spec, result))
    if member := reported_failure(result.value):
        return Executed(Outcome.ERROR, _reported(spec, result, member))
    errors = spec.output_errors(result.value)
    if not errors:
        return Executed(Outcome.OK, result)
    said = f"The tool answered something that its contract does not allow. {errors[0]}"
    if spec.effect_domain in _UNDONE_WHOLE:
        return Executed(Outcome.ERROR, ToolFailure(Reason.CONTRACT_ERROR, f"{said}{_NOTHING}"))
    if spec.effect is not Effect.READ:
        said += " What it was asked to do may have been done all the same."
    return Executed(Outcome.ERROR, ToolFailure(Reason.CONTRACT_ERROR, said, saved=result.artifacts))


_NOTHING = " Nothing was saved."


def _honest(spec: Specification, failure: ToolFailure) -> ToolFailure:
    """A failed write may be tried again only where its declaration says that this is safe."""
    if failure.retryable and spec.effect is not Effect.READ and not spec.retry_safe:
        return replace(failure, retryable=False)
    return failure


def _reported(spec: Specification, result: ToolOk, member: str) -> ToolFailure:
    """Return the failure that a body reports, with what it says of it."""
    # Before anything is cut: half of a name tells as much.
    whole = internal_hosts().hidden(redact(declared_only(result.value, spec.output_schema)))
    body = bound(whole, max_chars=MAX_REPORTED)
    said = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return ToolFailure(
        Reason.REPORTED_FAILURE,
        f"The tool's own answer reports a failure ({member[:60]}): {said}",
        saved=result.artifacts,
        provenance=result.provenance,
    )


def _raised(spec: Specification, call: Call, raised: Exception, *, stopped: bool) -> Executed:
    kind = type(raised).__name__
    log.warning("tool_raised", tool=spec.name, call=str(call.pk), error=kind, chain=_chain(raised))
    where = f"({kind}, reference {call.pk})"
    ours = spec.effect_domain in _UNDONE_WHOLE
    if ours and (isinstance(raised, OutOfTime) or was_cancelled(raised)):
        said = f"The tool did not finish within {spec.timeout_s:g} s.{_NOTHING}"
        return Executed(Outcome.TIMEOUT, ToolFailure(Reason.TIMEOUT, said), said)
    if spec.effect is Effect.READ and stopped:
        said = "The call was cancelled before the tool had answered."
        return Executed(Outcome.STOPPED, ToolFailure(Reason.CANCELLED, said), said)
    if isinstance(raised, Refusal) and (ours or spec.effect is Effect.READ):
        return Executed(Outcome.ERROR, _refused(spec, raised))
    if spec.effect is Effect.READ:
        ours_to_say = f"The tool failed inside {where}. It only reads, so it may be called again."
        said = f"{ours_to_say} It said: {_words(raised)}" if _words(raised) else ours_to_say
        failure = ToolFailure(Reason.EXECUTION_ERROR, said, retryable=True, domain=_whose(raised))
        return Executed(Outcome.RAISED, failure, ours_to_say)
    if ours:
        said = f"The tool failed inside {where}.{_NOTHING}"
        failure = ToolFailure(Reason.EXECUTION_ERROR, said, domain=_whose(raised))
        return Executed(Outcome.RAISED, failure, said)
    said = (
        f"The tool failed inside {where}."
        " Whether it changed anything is unknown; look before trying again."
    )
    failure = ToolFailure(Reason.OUTCOME_UNKNOWN, said, domain=_whose(raised))
    return Executed(Outcome.AMBIGUOUS, failure, said)


def _refused(spec: Specification, refusal: Refusal) -> ToolFailure:
    """Return a refusal of ours as the failure that it is: its words are made to be shown."""
    reasons = (reason for kind, reason in _REFUSED if isinstance(refusal, kind))
    said = refusal.message if spec.effect is Effect.READ else f"{refusal.message}{_NOTHING}"
    return ToolFailure(next(reasons, Reason.EXECUTION_ERROR), said)


def _whose(raised: Exception) -> FaultDomain:
    return FaultDomain.DEPENDENCY if isinstance(raised, _INFRASTRUCTURE) else FaultDomain.TOOL


def _words(raised: Exception) -> str:
    """Return what a read's exception says, where its words are the tool's and not a store's."""
    if isinstance(raised, _INFRASTRUCTURE):
        return ""
    return internal_hosts().hide(redact_text(" ".join(str(raised).split())))[:MAX_RAISED]


def _log_failure(spec: Specification, call: Call, executed: Executed) -> None:
    """Log a failed result once, and never its text: that may quote whatever the tool was given."""
    failure = executed.failure
    if failure is None:
        return
    log.info(
        "tool_failed",
        tool=spec.name,
        call=str(call.pk),
        outcome=executed.outcome.value,
        reason=failure.reason.value,
        exit_status=failure.exit_status,
        domain=failure.fault.value,
    )


def _chain(raised: Exception) -> str:
    """Return where it failed for whoever runs Kaizen: redacted, bounded, without local values."""
    told = redact_text("".join(traceback.format_exception(raised)))
    return told.encode("utf-8", "replace")[-MAX_CHAIN:].decode("utf-8", "ignore")
