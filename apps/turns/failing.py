"""What becomes of a run whose model failed? Another try, a smaller request, or an honest end.

Nothing of a failed answer was committed, so a transient failure is tried again a few times. One
that would come again for the same request is not asked again; one over the model's own bound is
asked once more with less. What the room had already read of an answer is kept, marked as broken
off, where it cannot be continued.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import structlog
from django.utils import timezone

from apps.core.metrics import PROVIDER_FAILURES, count
from apps.domain.grounding import ground
from apps.runs.models import JournalEntry, Run
from apps.runs.services import append_journal
from apps.turns.answer import Answer
from apps.turns.compacting import squeeze
from apps.turns.context import read_conversation
from apps.turns.grip import Grip
from apps.turns.plan import Plan, wrote_before
from apps.turns.provider import ProviderFailed
from apps.turns.record import attempts_for
from apps.turns.storing import MAX_MESSAGE, say, store

log = structlog.get_logger(__name__)

MAX_PROVIDER_FAILURES = 3
MAX_CONTINUED = 3
"""An answer that reaches its length limit is gone on with so often."""
MAX_RETRY_AFTER = 900.0


def after_failure(grip: Grip, plan: Plan, answer: Answer, failure: ProviderFailed) -> bool:
    """Go on after a failed answer in the way that it allows; True says to ask again at once."""
    if failure.overlong:
        return _with_less(grip, plan, answer, failure)
    if failure.cut and _continue(grip, plan, answer):
        return True
    if failure.broke_off and not plan.explains and answer.keep_whole_calls():
        return store(grip, plan, answer, broken=True)
    with grip.locked() as run:
        if grip.is_over(run):
            return False
        run.provider_failures += 1
        _diagnose(run, plan, failure)
        if failure.deterministic or run.provider_failures > MAX_PROVIDER_FAILURES:
            end_broken(grip, run, plan, answer, failure.message)
        else:
            _salvage(run, plan, answer)
            wait = max(2.0**run.provider_failures, min(failure.retry_after, MAX_RETRY_AFTER))
            run.state = Run.State.QUEUED
            run.claimed_by = ""
            run.claim_expires_at = None
            run.retry_at = timezone.now() + timedelta(seconds=wait)
            run.save()
    return False


def end_broken(grip: Grip, run: Run, plan: Plan, answer: Answer, explanation: str) -> None:
    """End a locked run over a failed answer, and keep what of it was already said."""
    if not plan.bound:
        _keep(run, max((answer.text, plan.salvaged), key=len))
    grip.finish(run, Run.Outcome.FAILED, explanation)


def keep_said(grip: Grip, run: Run) -> None:
    """Keep what was read of the answer under way, of a locked run that may not hear its end."""
    answer = grip.answer
    if answer is None or answer.stored or answer.hushed:
        return
    _keep(run, answer.text)


def _keep(run: Run, text: str) -> None:
    text = text[:MAX_MESSAGE].strip()
    if not text:
        return
    said = ground(text, attempts_for(run), wrote_before=wrote_before(run)).text
    append_journal(
        run=run,
        kind=JournalEntry.Kind.ASSISTANT,
        body={"text": text, "said": said, "calls": [], "broken": True},
    )
    say(run, said, broken_off=True)


def _with_less(grip: Grip, plan: Plan, answer: Answer, failure: ProviderFailed) -> bool:
    """Ask once more with less of the conversation; end the run where that is of no use."""
    answer.drop()
    run = Run.objects.select_related("agent", "member", "room").get(pk=grip.run_id)
    with grip.locked() as locked:
        if grip.is_over(locked):
            return False
        _diagnose(locked, plan, failure)
    tools = plan.tools(run.catalog or {})
    if not plan.squeezed and squeeze(grip, read_conversation(run), tools, plan.step):
        return True
    grip.fail(f"{failure.message} Nothing more of it could be left out.")
    return False


def _continue(grip: Grip, plan: Plan, answer: Answer) -> bool:
    """Keep an answer that reached its length limit, and let the model go on with it."""
    text = answer.text[:MAX_MESSAGE]
    if answer.proposals or plan.bound or plan.continued >= MAX_CONTINUED or not text.strip():
        return False
    with grip.locked() as run:
        if grip.is_over(run) or grip.pulse.stop_requested:
            return run.state != Run.State.FINISHED
        append_journal(
            run=run,
            kind=JournalEntry.Kind.ASSISTANT,
            body={"text": text, "calls": [], "cut": True},
        )
        say(run, text, goes_on=True)
    answer.said()
    return True


def _diagnose(run: Run, plan: Plan, failure: ProviderFailed) -> None:
    """Keep one diagnostic of a failure, without anything of what was asked or answered."""
    facts: dict[str, Any] = {
        "step": plan.step,
        "kind": failure.kind,
        "status": failure.status,
        "deterministic": failure.deterministic,
        "failures": run.provider_failures,
    }
    count(PROVIDER_FAILURES, kind="deterministic" if failure.deterministic else "transient")
    log.warning("provider_failed", run=str(run.pk), **facts)
    append_journal(run=run, kind=JournalEntry.Kind.NOTE, body={"event": "provider_failed", **facts})


def _salvage(run: Run, plan: Plan, answer: Answer) -> None:
    """Keep what was read of an answer that is asked for again, in case no better one comes."""
    text = answer.text[:MAX_MESSAGE]
    if text.strip() and len(text) > len(plan.salvaged):
        append_journal(
            run=run,
            kind=JournalEntry.Kind.NOTE,
            body={"event": "salvaged", "step": plan.step, "text": text},
        )
