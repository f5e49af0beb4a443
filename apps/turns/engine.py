"""How does a turn go? Ask the model, store its answer, let its calls cross, and ask again.

Everything that decides what happens next is in rows: the journal and the calls. A worker holds
nothing that another could not rebuild, so a turn may stop at any line and go on elsewhere. What is
only in memory (an answer that is still streaming) was never promised to anyone.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import structlog
from django.db import connection
from django.utils import timezone

from apps.audit.services import SYSTEM
from apps.boundary.crossing import Waiting
from apps.boundary.lost import lost_place
from apps.boundary.pipeline import cross
from apps.boundary.proposing import Proposal, propose
from apps.boundary.services import close_waiting_calls
from apps.boundary.workers import executor_name
from apps.core.correlation import bind_correlation_id
from apps.core.metrics import PROVIDER_FAILURES, count
from apps.domain.tooling import CallState, Outcome
from apps.rooms.services import publish_event
from apps.runs.claims import claim_run, fenced, lock_call, release_claim
from apps.runs.errors import RunOver, StaleFence
from apps.runs.models import Call, JournalEntry, Run
from apps.runs.services import (
    actor_of,
    agent_card,
    append_journal,
    finish_run,
    member_card,
    park_run,
)
from apps.tools.catalog import freeze, offered_tools
from apps.turns.answer import Answer, listen
from apps.turns.context import messages_for
from apps.turns.listening import patiently
from apps.turns.provider import ProviderFailed, provider
from apps.turns.pulse import Pulse, leaving

log = structlog.get_logger(__name__)

MAX_STEPS = 40
MAX_PROVIDER_FAILURES = 3
MAX_BREAKS = 5
"""A turn that breaks off so often before it gets anywhere would break off for ever."""
MAX_MESSAGE = 20_000


def run_turn(*, run_id: Any) -> None:
    """Claim a run and take it as far as it goes: to its end, or to a wait."""
    if leaving.is_set():
        return
    fence = claim_run(run_id=run_id, worker=executor_name())
    if fence is None:
        return
    try:
        with Pulse(run_id=run_id, fence=fence) as pulse:
            _Turn(run_id, fence, pulse).go()
    except (StaleFence, RunOver) as over:
        log.info("turn_overtaken", run=str(run_id), why=over.code)


class _Turn:
    """One worker's hold on one run."""

    def __init__(self, run_id: Any, fence: int, pulse: Pulse) -> None:
        self._run_id = run_id
        self._fence = fence
        self._pulse = pulse
        self._answer: Answer | None = None

    def go(self) -> None:
        try:
            if not self._begin():
                return
            while not self._pulse.interrupted():
                if self._cross_open_calls():
                    return
                if self._pulse.interrupted():
                    break
                if not self._ask_model():
                    return
            self._leave()
        finally:
            # However the turn left, nothing stays shown that was not stored.
            if self._answer is not None:
                self._answer.drop()

    def _begin(self) -> bool:
        """Freeze the catalog of a new run; False says that the run may not go on and has ended."""
        with fenced(run_id=self._run_id, fence=self._fence) as run:
            bind_correlation_id(run.correlation_id)
            if run.breaks >= MAX_BREAKS:
                self._finish(
                    run,
                    Run.Outcome.FAILED,
                    f"The turn broke off {run.breaks} times in a row, so it was ended. Whoever"
                    f" runs this Kaizen finds why under the reference {run.correlation_id}.",
                )
                return False
            if self._is_over(run):
                return False
            if run.catalog is None:
                run.save(update_fields=[*freeze(run), "updated_at"])
        return True

    def _is_over(self, run: Run) -> bool:
        """End a run that has lost its place, as things stand now under its lock."""
        if run.stop_requested_at is not None:
            self._pulse.note_stop()
            return False
        why = lost_place(run)
        if not why and run.catalog is None and not run.agent.enabled:
            why = f"{run.agent.name} is switched off."
        if not why:
            return False
        self._finish(run, Run.Outcome.STOPPED, why)
        return True

    def _cross_open_calls(self) -> bool:
        """Let every call of the last step cross; True says that the run parked or ended."""
        proposed = list(
            Call.objects.filter(run_id=self._run_id, state=CallState.PROPOSED.value).order_by(
                "step", "place"
            )
        )
        for call in proposed:
            if self._pulse.interrupted():
                return False
            with fenced(run_id=self._run_id, fence=self._fence) as run:
                crossed = cross(run=run, call=lock_call(call.pk))
            self._settle_preview(crossed.call)
            if not isinstance(crossed, Waiting) and crossed.call.outcome == Outcome.AMBIGUOUS.value:
                self._finish_failed(
                    "A write has an unknown end. Look at what it may have changed before going on."
                )
                return True
        with fenced(run_id=self._run_id, fence=self._fence) as run:
            calls = Call.objects.filter(run=run)
            if calls.exclude(state=CallState.SETTLED.value).exists():
                park_run(run=run)
                return True
            # Once is enough: a turn never goes on past a write with an unknown end.
            unknown = calls.filter(outcome=Outcome.AMBIGUOUS.value).exists()
        if unknown:
            self._finish_failed(
                "A write has an unknown end. Look at what it may have changed before going on."
            )
        return unknown

    def _ask_model(self) -> bool:
        """Take one step with the model; False says that the run ended or was put back."""
        run = Run.objects.select_related("agent", "member", "room").get(pk=self._run_id)
        step = JournalEntry.objects.filter(run=run, kind=JournalEntry.Kind.ASSISTANT).count() + 1
        if step > MAX_STEPS:
            self._finish_failed(f"The turn took more than {MAX_STEPS} steps.")
            return False
        messages = messages_for(run)
        answer = self._answer = Answer(run=run, step=step, tools=offered_tools(run))
        # The model may take minutes: no connection is held while it speaks.
        connection.close()
        try:
            deltas = provider().stream(
                model=run.agent.model_name,
                messages=messages,
                tools=_tools_for_model(run.catalog or {}),
                stopped=self._pulse.interrupted,
            )
            listen(answer=answer, deltas=patiently(deltas, self._pulse.interrupted))
        except ProviderFailed as failure:
            return self._after_failure(failure)
        return True if self._pulse.interrupted() else self._store(answer)

    def _store(self, answer: Answer) -> bool:
        """Store a complete answer; where it proposes nothing, it is the last word."""
        text = answer.text[:MAX_MESSAGE]
        with fenced(run_id=self._run_id, fence=self._fence) as run:
            if self._is_over(run):
                return False
            if self._pulse.stop_requested:
                return True
            append_journal(
                run=run,
                kind=JournalEntry.Kind.ASSISTANT,
                body={
                    "text": text,
                    "calls": [
                        {"id": call.proposal_id, "name": call.name} for call in answer.proposals
                    ],
                },
            )
            if run.provider_failures or run.breaks:
                run.provider_failures = run.breaks = 0
                run.save(update_fields=["provider_failures", "breaks", "updated_at"])
            if text.strip():
                self._say(run, text)
            for place, proposal in enumerate(answer.proposals):
                call = propose(
                    run=run,
                    step=answer.step,
                    place=place,
                    proposal=Proposal(
                        # A provider may use an id again in a later step; ours are unique in a run.
                        proposal_id=f"{answer.step}.{place}:{proposal.proposal_id}"[:200],
                        name=proposal.name,
                        arguments_text=proposal.arguments_text,
                    ),
                )
                answer.name_call(place, call)
            if not answer.proposals:
                if text.strip():
                    finish_run(run=run, outcome=Run.Outcome.COMPLETED)
                else:
                    finish_run(
                        run=run,
                        outcome=Run.Outcome.FAILED,
                        explanation="The model ended without an answer.",
                    )
        answer.said()
        for call in answer.settled_at_once():
            self._settle_preview(call)
        return bool(answer.proposals)

    def _say(self, run: Run, text: str) -> None:
        publish_event(
            room_id=run.room_id,
            kind="message.posted",
            actor=actor_of(run.agent),
            data={
                "author": {"kind": "agent", **agent_card(run.agent)},
                "text": text,
                "run": str(run.pk),
                "for": member_card(run.member),
            },
        )

    def _settle_preview(self, call: Call) -> None:
        if self._answer is not None:
            self._answer.close_preview(call)

    def _after_failure(self, failure: ProviderFailed) -> bool:
        """Put the run back for another try, or end it with one honest sentence."""
        with fenced(run_id=self._run_id, fence=self._fence) as run:
            run.provider_failures += 1
            count(
                PROVIDER_FAILURES,
                kind="deterministic" if failure.deterministic else "transient",
            )
            log.warning(
                "provider_failed",
                run=str(run.pk),
                deterministic=failure.deterministic,
                failures=run.provider_failures,
            )
            if failure.deterministic or run.provider_failures > MAX_PROVIDER_FAILURES:
                finish_run(run=run, outcome=Run.Outcome.FAILED, explanation=failure.message)
            else:
                run.state = Run.State.QUEUED
                run.claimed_by = ""
                run.claim_expires_at = None
                run.retry_at = timezone.now() + timedelta(seconds=2**run.provider_failures)
                run.save()
        return False

    def _finish_failed(self, explanation: str) -> None:
        with fenced(run_id=self._run_id, fence=self._fence) as run:
            self._finish(run, Run.Outcome.FAILED, explanation)

    def _finish(self, run: Run, outcome: str, explanation: str) -> None:
        """End a run and whatever of it was still to come: no open call outlives its run."""
        close_waiting_calls(run=run, actor=SYSTEM, message=explanation)
        finish_run(run=run, outcome=outcome, explanation=explanation)

    def _leave(self) -> None:
        """End a stopped run; give a run back when this process is ending."""
        if self._pulse.lost:
            return
        if not self._pulse.stop_requested:
            release_claim(run_id=self._run_id, fence=self._fence)
            return
        with fenced(run_id=self._run_id, fence=self._fence) as run:
            close_waiting_calls(
                run=run, actor=run.stop_requested_by, message="The run was stopped."
            )
            if Call.objects.filter(run=run, state=CallState.DISPATCHED.value).exists():
                # Its executor was told; settling it wakes the run, which then ends here.
                park_run(run=run)
                return
            finish_run(run=run, outcome=Run.Outcome.STOPPED, explanation="Stopped.")


def _tools_for_model(catalog: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": entry["name"],
                "description": entry["description"],
                "parameters": entry["input_schema"],
            },
        }
        for entry in catalog.get("tools", {}).values()
    ]
