"""How does a proposed tool call become an effect? Read this file first.

An agent only *proposes*. Every proposal, from our own turn engine or from another runtime through
the callback API, crosses the same six steps, one file each under `steps/`:

    1. decide   gather the facts now, ask the pure policy: admit, ask, refuse, or repeat
    2. approve  where the policy asks: store the question, then wait without holding anything
    3. consume  lock, decide again, reserve quota, spend the receipt, mark the call dispatched
    4. execute  run the tool as the member, within its deadline
    5. project  redact and bound what the model may see
    6. record   one outcome, one audit row, one event in the room

Three facts make it safe:

* A receipt is spent by one conditional update in the transaction that dispatches the call, and it
  names the exact call, tool, arguments and actor. Of two that try, one finds it unspent.
* A tool whose effect lies in our own tables commits effect and settlement together. When a worker
  dies, either both are there or neither is.
* An effect outside is marked dispatched before it starts. When its executor falls silent, a read is
  abandoned and a write is *ambiguous*: said, terminal, and never tried again.

Lock order, here as everywhere: run, call, receipt, artifact, blob, meter, room.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from django.db import transaction
from django.db.models import F

from apps.approvals.errors import ReceiptSpent
from apps.boundary.attempts import count_attempt
from apps.boundary.crossing import Begun, Crossed, Crossing, Settled, Waiting
from apps.boundary.hold import Hold
from apps.boundary.homes import sent_home
from apps.boundary.live import LiveOutput
from apps.boundary.pausing import begin_pause
from apps.boundary.silence import settle_silent
from apps.boundary.standing import Standing, read_standing
from apps.boundary.steps.approve import ask, hand_over
from apps.boundary.steps.consume import announce, consume, hand_on
from apps.boundary.steps.decide import judge
from apps.boundary.steps.execute import Execution, execute, keep
from apps.boundary.steps.project import project, unexecuted
from apps.boundary.steps.record import record
from apps.core.correlation import bind_correlation_id
from apps.domain.lessons import CLOSING_AFTER, Lessons
from apps.domain.policy import Admit, Ask, Refuse, Repeat
from apps.domain.tooling import (
    CallState,
    EffectDomain,
    Outcome,
    Paused,
    Reason,
    ToolHandedOn,
    ToolPrepared,
)
from apps.quotas.errors import QuotaExceeded
from apps.rooms.services import room_last
from apps.runs.bodies import arguments_of, projection_of
from apps.runs.claims import lock_run_and_call
from apps.runs.errors import AlreadySettled
from apps.runs.models import Call, Run
from apps.sandbox.waiting import ProgramsLive, free_processes, holds_processes
from apps.tools.catalog import resolve_tool
from apps.tools.contract import CallTool, no_inner_calls
from apps.tools.credentials import NoConnection


class InnerDoor(Protocol):
    """Opens a way for the program of a dispatched call to make calls of its own."""

    def __call__(
        self, *, call: Call, executor: str, cancelled: Callable[[], bool], seconds: float
    ) -> CallTool:
        """Return it, for one call, its executor, and no longer than so many seconds."""


def no_inner_door(**_: object) -> CallTool:
    """Let no program make calls."""
    return no_inner_calls


MAX_ATTEMPTS = 5
"""A waiting call whose way to its worker broke so often would break for ever."""


def cross(*, run: Run, call: Call, standing: Standing | None = None) -> Crossed:
    """Take a proposed call as far as it goes at once. The caller has run and call locked.

    A call that is quick and only ours crosses whole, in this transaction; one that was only
    drafted in it is written when it gets somewhere. One that must ask, or may take long, is left
    waiting; whoever settles it wakes the run.
    """
    begun = begin(run=run, call=call, executor="inline", standing=standing)
    return _execute(begun.crossing, begun.rule) if isinstance(begun, Begun) else begun


def begin(
    *, run: Run, call: Call, executor: str, standing: Standing | None = None
) -> Crossed | Begun:
    """Decide a proposed call and dispatch it to this executor, where it can be carried out now."""
    crossing = crossing_of(run, call, standing)
    if crossing.call.state != CallState.PROPOSED.value:
        return _as_it_is(crossing)
    match judge(crossing):
        case Refuse() as refusal:
            return refuse(crossing, refusal)
        case Repeat(call_id=earlier, rule=rule):
            return _repeat(crossing, earlier, rule)
        case Ask() as question:
            # Nobody is asked while programs of the run live on: a worker ends them first.
            return hand_over(crossing) if holds_processes(run) else ask(crossing, question)
        case Admit() if crossing.tool is not None and (
            crossing.tool.spec.later or crossing.leaves_us
        ):
            return hand_over(crossing)
        case Admit(rule=rule, waived=waived):
            consume(crossing, executor=executor, waived=waived)
            return Begun(crossing, rule)


def execute_waiting(*, call_id: Any, executor: str, inner: InnerDoor = no_inner_door) -> None:
    """Carry out a call that waited, in a worker: decided again, then consumed, then executed."""
    if sent_home(call_id):
        return
    # Counted in a transaction of its own: what breaks below is rolled back and tried again.
    if count_attempt(call_id) > MAX_ATTEMPTS and _gave_up(call_id):
        return
    try:
        begun = _dispatched(call_id, executor=executor)
    except ProgramsLive as living:
        free_processes(living.run)
        begun = _dispatched(call_id, executor=executor, freed=True)
    if begun is not None:
        _execute_outside(begun.crossing, executor=executor, rule=begun.rule, inner=inner)


def _dispatched(call_id: Any, *, executor: str, freed: bool = False) -> Begun | None:
    """Take a waiting call as far as it goes under its lock; return what is to be run outside of it.

    Raises ProgramsLive, with nothing done, where a person is to be asked and programs of the run
    were not `freed` before.
    """
    with room_last():
        crossing = _locked(call_id)
        bind_correlation_id(crossing.run.correlation_id)
        if crossing.call.state == CallState.DISPATCHED.value:
            settle_silent(crossing)
            return None
        if crossing.call.state != CallState.WAITING.value:
            return None
        match judge(crossing):
            case Refuse() as refusal:
                refuse(crossing, refusal)
                return None
            case Ask() as question:
                if not crossing.call.needs_receipt:
                    # The rules have become stricter since it was handed over, or its run's programs
                    # were to be freed first.
                    if not freed and holds_processes(crossing.run):
                        raise ProgramsLive(crossing.run)
                    ask(crossing, question)
                return None
            case Repeat(call_id=earlier, rule=rule):
                _repeat(crossing, earlier, rule)
                return None
            case Admit(rule=rule, waived=waived):
                try:
                    # A savepoint of its own, so that a spent receipt undoes nothing else.
                    with transaction.atomic():
                        consume(crossing, executor=executor, waived=waived)
                except ReceiptSpent as spent:
                    refuse(
                        crossing, Refuse(Reason.RECEIPT_SPENT, str(spent), "receipt_is_spendable")
                    )
                    return None
                except NoConnection as missing:
                    refuse(
                        crossing,
                        Refuse(Reason.DEPENDENCY_UNAVAILABLE, str(missing), "connection_is_there"),
                    )
                    return None
                except QuotaExceeded as full:
                    _wait_or_refuse(crossing, full)
                    return None
        if crossing.tool is None:
            return None
        if crossing.tool.spec.effect_domain is EffectDomain.OURS:
            _execute(crossing, rule)
            return None
        announce(crossing)
    return Begun(crossing, rule)


def _wait_or_refuse(crossing: Crossing, full: QuotaExceeded) -> None:
    """Leave a call waiting for a free place; refuse one whose quota is spent until it renews."""
    if full.renews_at is not None:
        refuse(crossing, Refuse(Reason.QUOTA_EXCEEDED, str(full), "quota_holds_it"))
        return
    # Nothing broke: it was not its turn yet, and the sweep rings again.
    Call.objects.filter(pk=crossing.call.pk).update(attempts=F("attempts") - 1)


def _execute_outside(crossing: Crossing, *, executor: str, rule: str, inner: InnerDoor) -> None:
    """Carry out a dispatched call with no lock and no connection held, then settle it."""
    tool = crossing.tool
    if tool is None:
        raise LookupError("Only a resolved tool is ever dispatched.")
    arguments = arguments_of(crossing.call)
    live = LiveOutput(run=crossing.run, call=crossing.call)
    with live, Hold(call_id=crossing.call.pk, run_id=crossing.run.pk, executor=executor) as hold:
        executed = execute(
            tool=tool,
            run=crossing.run,
            call=crossing.call,
            arguments=arguments,
            cancelled=hold.cancelled,
            say=live.say,
            call_tool=inner(
                call=crossing.call,
                executor=executor,
                cancelled=hold.cancelled,
                seconds=tool.spec.timeout_s,
            ),
        )
    with room_last():
        settle_executed(begun=Begun(crossing, rule), executed=executed, executor=executor)


def settle_executed(*, begun: Begun, executed: Execution, executor: str) -> Call:
    """Settle a call that was carried out without a lock, unless it was taken from its executor."""
    settling = _locked(begun.crossing.call.pk, tool=begun.tool)
    if (settling.call.state, settling.call.executor) != (CallState.DISPATCHED.value, executor):
        # The hold was lost and the call was settled as unknown; a late result is fenced off.
        return settling.call
    if isinstance(executed, Paused):
        begin_pause(settling, executed, begun.rule)
        return settling.call
    if isinstance(executed, ToolHandedOn):
        raise LookupError("Only what commits with its settlement hands a call on.")
    if isinstance(executed, ToolPrepared):
        executed = keep(tool=begun.tool, call=settling.call, prepared=executed)
    return record(
        settling,
        outcome=executed.outcome,
        reason=executed.reason,
        rule=begun.rule,
        projection=project(executed, begun.tool.spec),
        explanation=executed.explanation,
        failure=executed.failure,
        provenance=executed.result.provenance,
        images=executed.images,
    ).call


def _execute(crossing: Crossing, rule: str) -> Crossed:
    """Carry out and settle a call of our own domain in the transaction that consumed it."""
    tool = crossing.tool
    if tool is None:
        raise LookupError("Only a resolved tool is ever admitted.")
    executed = execute(
        tool=tool, run=crossing.run, call=crossing.call, arguments=arguments_of(crossing.call)
    )
    if isinstance(executed, Paused | ToolPrepared):
        raise LookupError("What commits with its settlement cannot wait for an answer.")
    if isinstance(executed, ToolHandedOn):
        return hand_on(crossing, to=executed.to)
    return record(
        crossing,
        outcome=executed.outcome,
        reason=executed.reason,
        rule=rule,
        projection=project(executed, tool.spec),
        explanation=executed.explanation,
        failure=executed.failure,
        provenance=executed.result.provenance,
    )


def refuse(crossing: Crossing, refusal: Refuse) -> Settled:
    """Settle a call that the policy, or what the call needs, does not let through."""
    denied = refusal.reason in (Reason.APPROVAL_DENIED, Reason.APPROVAL_EXPIRED)
    outcome = Outcome.DENIED if denied else Outcome.REFUSED
    if refusal.reason is Reason.STOPPED:
        outcome = Outcome.STOPPED
    return record(
        crossing,
        outcome=outcome,
        reason=refusal.reason.value,
        rule=refusal.rule,
        projection=unexecuted(
            outcome=outcome.value, reason=refusal.reason, message=refusal.message
        ),
        explanation=refusal.message,
    )


def _repeat(crossing: Crossing, earlier_id: str, rule: str) -> Settled:
    earlier = projection_of(Call.objects.get(pk=earlier_id)) or {}
    return record(
        crossing,
        outcome=Outcome.SUPPRESSED,
        reason="",
        rule=rule,
        projection={**earlier, "outcome": Outcome.OK.value, "note": _note(crossing)},
    )


def _note(crossing: Crossing) -> str:
    """Say that nothing new was made, and more plainly where that was said before."""
    call = crossing.call
    before = Lessons.of(crossing.run.lessons).repeats_of(call.tool, call.arguments_digest)
    if before < CLOSING_AFTER:
        return (
            "This exact call succeeded earlier in this turn, so nothing new was made and this is"
            " its result. Where a second copy is wanted, call again with other arguments."
        )
    return (
        f"This exact call succeeded earlier in this turn and has now been handed back {before + 1}"
        " times; nothing new was made. It is done. Do not call it again in this turn: answer with"
        " what it made."
    )


def _gave_up(call_id: Any) -> bool:
    """Settle a waiting call that broke every time before its tool was reached."""
    with room_last():
        run, call = _locked_rows(call_id)
        if call.state != CallState.WAITING.value:
            return False
        message = (
            f"Kaizen failed {MAX_ATTEMPTS} times before it reached the tool (reference {call.pk})."
            " Nothing was done."
        )
        record(
            # Not even the tool is looked up: that may be what breaks.
            Crossing(run=run, call=call, tool=None),
            outcome=Outcome.ERROR,
            reason=Reason.EXECUTION_ERROR.value,
            rule="attempts_are_bounded",
            projection=unexecuted(
                outcome=Outcome.ERROR.value, reason=Reason.EXECUTION_ERROR, message=message
            ),
            explanation=message,
        )
    return True


def _as_it_is(crossing: Crossing) -> Crossed:
    settled = crossing.call.state == CallState.SETTLED.value
    return Settled(crossing.call) if settled else Waiting(crossing.call)


def _locked(call_id: Any, tool: Any = None) -> Crossing:
    run, call = _locked_rows(call_id)
    return crossing_of(run, call) if tool is None else Crossing(run=run, call=call, tool=tool)


def crossing_of(run: Run, call: Call, standing: Standing | None = None) -> Crossing:
    """Return a locked call with how things stand for it, and with what its tool is now."""
    standing = standing or read_standing(run_id=run.pk, tool=call.tool)
    tool = resolve_tool(call.tool, standing.run.agent, standing.policy)
    return Crossing(run=run, call=call, tool=tool, standing=standing)


def _locked_rows(call_id: Any) -> tuple[Run, Call]:
    """Lock run, then call, as they now stand."""
    locked = lock_run_and_call(call_id)
    if locked is None:
        raise AlreadySettled("There is no such call.")
    return locked
