"""Step 2, approve: store the question before any waiting starts, or hand the call to a worker."""

from __future__ import annotations

from apps.approvals import services as ledger
from apps.approvals.previews import binding_in
from apps.boundary.crossing import Crossing, Waiting
from apps.core.queue import ring
from apps.domain.policy import Ask
from apps.domain.tooling import CallState
from apps.rooms.services import publish_event
from apps.runs.bodies import arguments_of
from apps.runs.services import actor_of, keep_call, member_card

EXECUTE_TASK = "boundary.execute_call"


def ask(crossing: Crossing, question: Ask) -> Waiting:
    """Ask the member for whom the run works about exactly this call.

    The room learns the tool and who decides; only that person can fetch the arguments.
    """
    run, call = crossing.run, crossing.call
    call.state = CallState.WAITING.value
    call.needs_receipt = True
    keep_call(call, "state", "needs_receipt")
    request = ledger.ask(
        call=call,
        decider=run.member,
        why=question.why,
        mode=question.mode,
        second=question.second,
        may_remember=question.may_remember,
        expires_after_s=question.expires_after_s,
        binding=binding_in(arguments_of(call)),
    )
    publish_event(
        room_id=run.room_id,
        kind="approval.requested",
        actor=actor_of(run.agent),
        data={
            "approval": str(request.pk),
            "call": str(call.pk),
            "run": str(run.pk),
            "tool": call.tool,
            "title": call.title,
            "decider": member_card(run.member),
            "second": request.second,
            "expires_at": request.expires_at.isoformat(),
        },
    )
    return Waiting(call)


def hand_over(crossing: Crossing) -> Waiting:
    """Leave a call that may take long to a worker."""
    call = crossing.call
    call.state = CallState.WAITING.value
    keep_call(call, "state")
    ring(EXECUTE_TASK, call_id=str(call.pk))
    return Waiting(call)
