"""What becomes of an answer that arrived whole? It is stored, said, and its calls are proposed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from apps.boundary.proposing import Proposal, propose
from apps.boundary.refusing import refuse_unasked
from apps.domain.bounds import delivered
from apps.domain.grounding import ground
from apps.domain.staging import is_out_of_place
from apps.domain.tooling import CallState, Outcome, Reason
from apps.rooms.services import publish_event
from apps.runs.models import Call, JournalEntry, Run
from apps.runs.services import (
    actor_of,
    agent_card,
    append_journal,
    finish_run,
    member_card,
)
from apps.sandbox.session_ends import CleanupFailed, close_sessions, has_sessions
from apps.turns.answer import Answer
from apps.turns.grip import Grip
from apps.turns.plan import Plan, wrote_before
from apps.turns.record import attempts_for, attempts_of
from apps.turns.steering import admit_steering

MAX_MESSAGE = 20_000
MAX_HELD = 2
"""So many answers may pass the bound tool by before the turn gives up on it."""


def store(grip: Grip, plan: Plan, answer: Answer, *, broken: bool = False) -> bool:
    """Store an answer; where it proposes nothing, it is the last word. True says to go on."""
    others = _hold_back(plan, answer)
    unclean = _clean_up(grip, plan, answer)
    with grip.locked() as run:
        if grip.is_over(run):
            return False
        if grip.pulse.stop_requested:
            return True
        if unclean:
            # Nobody hears that it went well: this is what came of the run.
            grip.finish(run, Run.Outcome.FAILED, unclean)
            return False
        if plan.bound and not answer.proposals:
            return _asks_again(grip, run, plan, others)
        if others:
            _note_held(run, plan, others)
        text = answer.text[:MAX_MESSAGE]
        last = not answer.proposals
        grounded = ground(text, attempts_for(run), wrote_before=wrote_before(run)) if last else None
        said = grounded.text if grounded is not None else text
        body: dict[str, Any] = {
            "text": text,
            "calls": [{"id": one.proposal_id, "name": one.name} for one in answer.proposals],
        }
        if said != text:
            body["said"] = said
        if broken:
            body["broken"] = True
        append_journal(run=run, kind=JournalEntry.Kind.ASSISTANT, body=body)
        if run.provider_failures or run.breaks:
            run.provider_failures = run.breaks = 0
            run.save(update_fields=["provider_failures", "breaks", "updated_at"])
        if said.strip() and not plan.bound:
            corrected = grounded is not None and grounded.overwritten
            say(run, said, **({"corrected": True} if corrected else {}))
        _propose(run, answer)
        goes_on = _goes_on(grip, run, plan, answer, said)
    answer.said()
    for call in answer.settled_at_once():
        answer.close_preview(call)
    return goes_on


def _clean_up(grip: Grip, plan: Plan, answer: Answer) -> str:
    """End the run's sessions before its last word is committed; return what did not go well.

    No lock is held meanwhile. Whoever dies in between leaves rows that the sweep finds.
    """
    if answer.proposals or plan.bound or not has_sessions(grip.run_id):
        return ""
    try:
        close_sessions(run_id=grip.run_id, why="The agent had given its answer.")
    except CleanupFailed as failed:
        return failed.message
    return ""


def say(run: Run, text: str, **words: Any) -> None:
    """Tell the room what the agent said; the words of a child run are for its parent's call."""
    if run.parent_id is not None:
        return
    publish_event(
        room_id=run.room_id,
        kind="message.posted",
        actor=actor_of(run.agent),
        data={
            "author": {"kind": "agent", **agent_card(run.agent)},
            "text": text,
            "run": str(run.pk),
            "for": member_card(run.member),
            **words,
        },
    )


def _goes_on(grip: Grip, run: Run, plan: Plan, answer: Answer, said: str) -> bool:
    """Tell whether a locked run goes on after a stored answer, or end it."""
    if answer.proposals:
        return not _is_out_of_bounds(grip, run, plan, answer)
    if admit_steering(run):
        return True
    if said.strip() or delivered(attempts_of(run)):
        finish_run(run=run, outcome=Run.Outcome.COMPLETED)
        return False
    why = "The model ended without an answer"
    tried = Call.objects.filter(run=run).exists()
    explanation = f"{why}, and its calls made nothing that stays." if tried else f"{why}."
    finish_run(run=run, outcome=Run.Outcome.FAILED, explanation=explanation)
    return False


def _is_out_of_bounds(grip: Grip, run: Run, plan: Plan, answer: Answer) -> bool:
    """Refuse what this step could not ask for, and end the run over it."""
    calls = [one.call for one in answer.proposals if one.call is not None]
    if plan.explains:
        message = (
            f"{plan.explains} failed in a way that no other call may stand in for, so there was"
            " only an answer to give."
        )
        _refuse(run, calls, Outcome.REFUSED, Reason.SUBSTITUTE_BLOCKED, message)
        grip.finish(
            run, Run.Outcome.FAILED, f"{message} The agent called {calls[0].title} instead."
        )
        return True
    stale = [call for call in calls if is_out_of_place(call.tool, plan.shown)]
    if not stale:
        return False
    message = (
        "This step did not offer the tool: it is a part of a protocol that was not begun here."
    )
    _refuse(run, stale, Outcome.DENIED, Reason.PROTOCOL_FAILURE, message)
    grip.finish(
        run,
        Run.Outcome.FAILED,
        f"The agent asked for {stale[0].tool}, which this step did not offer. What was saved of"
        " the draft stays, and a later turn can go on with it.",
    )
    return True


def _refuse(
    run: Run, calls: Iterable[Call], outcome: Outcome, reason: Reason, message: str
) -> None:
    for call in calls:
        if call.state != CallState.SETTLED.value:
            refuse_unasked(run=run, call=call, outcome=outcome, reason=reason, message=message)


def _propose(run: Run, answer: Answer) -> None:
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


def _hold_back(plan: Plan, answer: Answer) -> list[str]:
    """Of an answer that a bound tool has to come before, keep that call alone; name the others."""
    if not plan.bound:
        return []
    wanted = [one for one in answer.proposals if one.name == plan.bound][:1]
    others = [one.name for one in answer.proposals if not any(one is kept for kept in wanted)]
    answer.keep_calls(wanted)
    return others


def _asks_again(grip: Grip, run: Run, plan: Plan, others: Sequence[str]) -> bool:
    """Hold an answer that passes the bound tool by, a few times; then end the locked run."""
    if plan.held_answers >= MAX_HELD:
        grip.finish(
            run,
            Run.Outcome.FAILED,
            f"The request demands a call of {plan.bound}, and the model answered"
            f" {plan.held_answers + 1} times without it.",
        )
        return False
    _note_held(
        run,
        plan,
        others,
        tell=f"The member's request demands that you call {plan.bound} first. Nothing else was"
        " said or done. Call it now.",
    )
    return True


def _note_held(run: Run, plan: Plan, others: Sequence[str], **words: Any) -> None:
    append_journal(
        run=run,
        kind=JournalEntry.Kind.NOTE,
        body={"event": "held", "step": plan.step, "calls": list(others)[:16], **words},
    )
