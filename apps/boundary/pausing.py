"""How does a call wait for another system's answer, and how does that answer become its result?

While it waits, the call is dispatched and nobody executes it: no worker, no lease, no hold. The
answer is judged like a result that the tool itself had handed back, and is always outside data.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.utils import timezone

from apps.approvals import pauses
from apps.approvals.errors import BadAnswer, PauseOver
from apps.approvals.models import Pause
from apps.boundary.crossing import Crossing, Executed
from apps.boundary.steps.execute import returned
from apps.boundary.steps.project import project, unexecuted
from apps.boundary.steps.record import record
from apps.core.throttles import Limit, spend
from apps.domain.tooling import (
    CallState,
    Effect,
    Outcome,
    Paused,
    Reason,
    Specification,
    ToolFailure,
    ToolOk,
)
from apps.grants.policy import deployment_policy
from apps.quotas import services as quotas
from apps.rooms.services import publish_event, room_last
from apps.runs.claims import lock_call, lock_run
from apps.runs.models import Call, Run
from apps.runs.services import actor_of
from apps.runs.waits import is_paused
from apps.tools.catalog import resolve_tool

ANSWERS = Limit("pauses", 30, 60)
"""Per token: a system that keeps sending what is not valid is slowed down."""
RULE = "another_system_answered"


def begin_pause(crossing: Crossing, said: Paused, rule: str) -> None:
    """Let a dispatched call wait, as its tool said; run and call are locked."""
    run, call, tool = crossing.run, crossing.call, crossing.tool
    pause = pauses.lock_pause(call)
    if tool is None or tool.spec.pauses is None or pause is None:
        failure = "The tool said that it waits, and handed its link to nobody."
        executed = Executed(Outcome.ERROR, ToolFailure(Reason.CONTRACT_ERROR, failure))
        _settle(crossing, executed, rule)
        return
    if pause.state == Pause.State.ANSWERED:
        _settle(crossing, _judged(tool.spec, pauses.early_answer(pause)), RULE)
        return
    if run.stop_requested_at is not None:
        close_pause(crossing, message="The run was stopped.")
        return
    limits = tool.spec.pauses
    seconds = limits.default_s if said.seconds is None else min(said.seconds, limits.most_s)
    pauses.begin_wait(pause=pause, seconds=seconds, provenance=said.provenance)
    # What waits for somebody else takes nobody's place.
    quotas.close_call(call=call)
    # Nobody executes it any more, so nobody can fall silent: only an answer or its time ends it.
    call.rule = rule
    call.executor = ""
    call.executor_expires_at = None
    call.save(update_fields=["rule", "executor", "executor_expires_at", "updated_at"])
    publish_event(
        room_id=run.room_id,
        kind="call.paused",
        actor=actor_of(run.agent),
        data={
            "call": str(call.pk),
            "run": str(run.pk),
            "tool": call.tool,
            "title": call.title,
            "until": pause.expires_at.isoformat(),
        },
    )


@room_last()
def answer_pause(*, token: str, answer: Any) -> None:
    """Take another system's answer to a call that waits for it; a token is used once."""
    found = pauses.pause_of_token(token)
    spend(ANSWERS, found.key)
    crossing = _locked(found.call)
    pause = pauses.lock_pause(crossing.call)
    if pause is None or not _is_open(pause, crossing.call):
        raise PauseOver("This call does not wait any more: it was answered, or its time is over.")
    tool = crossing.tool
    if tool is None or tool.digest != crossing.call.descriptor_digest:
        raise PauseOver("The tool has changed since it asked, so its answer cannot be read.")
    errors = tool.spec.output_errors(answer)
    if errors:
        raise BadAnswer(
            str(errors[0]),
            field=f"answer{errors[0].path}",
            extra={
                "errors": [
                    {"field": f"answer{e.path}", "rule": e.rule, "detail": e.text} for e in errors
                ]
            },
        )
    early = pause.state == Pause.State.GIVEN
    pauses.keep_answer(pause=pause, answer=answer, early=early)
    if not early:
        _settle(crossing, _judged(tool.spec, answer), RULE)


@room_last()
def expire_pause(*, pause_id: Any) -> None:
    """Fail a call whose answer did not come in time."""
    found = Pause.objects.select_related("call").filter(pk=pause_id).first()
    if found is None:
        return
    crossing = _locked(found.call)
    pause = pauses.lock_pause(crossing.call)
    if pause is None or pause.state not in pauses.OPEN or pause.expires_at > timezone.now():
        return
    if not is_paused(crossing.call):
        # Its tool ended without waiting for it.
        pauses.close_pause(pause=pause, state=Pause.State.CLOSED)
        return
    pauses.close_pause(pause=pause, state=Pause.State.EXPIRED)
    message = "The other system did not answer in time."
    if crossing.call.effect != Effect.READ.value:
        message += " Whether it did what it was asked is unknown; look before trying again."
    record(
        crossing,
        outcome=Outcome.TIMEOUT,
        reason=Reason.TIMEOUT.value,
        rule="another_system_answers_in_time",
        projection=unexecuted(
            outcome=Outcome.TIMEOUT.value, reason=Reason.TIMEOUT, message=message
        ),
        explanation=message,
    )


def close_pause(crossing: Crossing, *, message: str) -> None:
    """End the wait of a call whose run ends; run and call are locked."""
    pause = pauses.lock_pause(crossing.call)
    if pause is not None and pause.state in pauses.OPEN:
        pauses.close_pause(pause=pause, state=Pause.State.CLOSED)
    said = f"{message} It was waiting for another system, which may still do what it was asked."
    record(
        crossing,
        outcome=Outcome.STOPPED,
        reason=Reason.STOPPED.value,
        rule="run_is_live",
        projection=unexecuted(outcome=Outcome.STOPPED.value, reason=Reason.STOPPED, message=said),
        explanation=said,
    )


def settle_from_early_answer(crossing: Crossing) -> bool:
    """Settle a call whose worker fell silent with the answer that came meanwhile, if one did."""
    pause = pauses.lock_pause(crossing.call)
    if crossing.tool is None or pause is None or pause.state != Pause.State.ANSWERED:
        return False
    _settle(crossing, _judged(crossing.tool.spec, pauses.early_answer(pause)), RULE)
    return True


def _is_open(pause: Pause, call: Call) -> bool:
    alive = pause.state in pauses.OPEN and pause.expires_at > timezone.now()
    return alive and call.state == CallState.DISPATCHED.value


def _judged(spec: Specification, answer: Any) -> Executed:
    """Judge an answer like a result of the tool's own."""
    return returned(spec, ToolOk(answer))


def _settle(crossing: Crossing, executed: Executed, rule: str) -> None:
    tool = crossing.tool
    if tool is None:
        raise LookupError("Only a resolved tool is ever paused.")
    record(
        crossing,
        outcome=executed.outcome,
        reason=executed.reason,
        rule=rule,
        # Another system wrote it, whatever the tool itself may be.
        projection=project(executed, replace(tool.spec, outside_data=True)),
        explanation=executed.explanation,
        failure=executed.failure,
    )


def _locked(call: Call) -> Crossing:
    run: Run = lock_run(call.run_id)
    locked = lock_call(call.pk)
    tool = resolve_tool(locked.tool, run.agent, deployment_policy())
    return Crossing(run=run, call=locked, tool=tool)
