"""How is a model asked for one step, and how much of the conversation does it get to read?"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import connection

from apps.core.blobs import get_blobs
from apps.domain.seeing import digests_of, with_pixels
from apps.quotas.errors import QuotaExceeded
from apps.runs.models import Run
from apps.tools.catalog import offered_tools
from apps.turns.answer import Answer, listen
from apps.turns.compacting import within_bounds
from apps.turns.context import read_conversation
from apps.turns.failing import after_failure
from apps.turns.grip import Grip
from apps.turns.listening import patiently
from apps.turns.metering import close_step, hold_step, without_quota
from apps.turns.plan import plan_step, tighter
from apps.turns.provider import ProviderFailed, provider
from apps.turns.storing import store

MAX_STEPS = 40


def ask_model(grip: Grip) -> bool:
    """Take one step with the model; False says that the run ended or was put back."""
    run = Run.objects.select_related("agent", "member", "room").get(pk=grip.run_id)
    conversation = read_conversation(run)
    plan = plan_step(conversation, offered_tools(run))
    if plan.step > MAX_STEPS:
        grip.fail(f"The turn took more than {MAX_STEPS} steps.")
        return False
    tools = plan.tools(run.catalog or {})
    messages = within_bounds(grip, conversation, tools)
    answer = grip.answer = Answer(
        run=run,
        step=plan.step,
        tools=plan.held,
        made=plan.made,
        # What a bound tool has to come before is not said yet; a child speaks to its parent only.
        hushed=bool(plan.bound) or run.parent_id is not None,
        # Where only an answer may follow, whatever is called is refused: nobody watches it grow.
        previews=not plan.explains,
    )
    try:
        held = hold_step(grip, run, messages, tools)
    except QuotaExceeded as full:
        without_quota(grip, full)
        return False
    try:
        _listen(grip, run, answer, messages, tools)
    except ProviderFailed as failure:
        close_step(held, answer, served=failure.served)
        return after_failure(grip, plan, answer, failure)
    close_step(held, answer)
    return True if grip.pulse.interrupted() else store(grip, plan, answer)


def _listen(
    grip: Grip,
    run: Run,
    answer: Answer,
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]],
) -> None:
    # Read last, and kept nowhere: a request holds images for as long as it is sent.
    messages = with_pixels(messages, get_blobs(digests_of(messages)))
    # The model may take minutes: no connection is held while it speaks.
    connection.close()
    asked = provider()
    deltas = asked.stream(
        model=run.agent.model_name,
        messages=messages,
        tools=tools,
        stopped=grip.pulse.interrupted,
    )
    patience = tighter(run.agent.inactivity_s, settings.KAIZEN_TURN_INACTIVITY_S)
    try:
        listen(answer=answer, deltas=patiently(deltas, grip.pulse.interrupted, patience=patience))
    finally:
        # Nobody hears it any more, and it could go on for ever without a word for anybody.
        asked.hang_up()
