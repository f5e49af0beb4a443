"""How does a member's word reach a run that is already at work? At its next step, as an input."""

from __future__ import annotations

from apps.rooms.services import publish_event
from apps.runs.models import JournalEntry, Run, RunInput
from apps.runs.routing import input_body, policy_of
from apps.runs.services import append_journal, member_card
from apps.tools.catalog import offered_tools
from apps.turns.plan import asked_for

MAX_ADMITTED = 20
"""Words that one run takes in besides the request that started it; later ones start the next."""


def admit_steering(run: Run) -> bool:
    """Take the waiting words of its member into a locked run; True says that there were some."""
    if run.parent_id is not None:
        return False
    waiting = list(
        RunInput.objects.filter(
            room_id=run.room_id,
            agent_id=run.agent_id,
            member_id=run.member_id,
            run=None,
            steer=True,
        )
    )
    if not waiting:
        return False
    room_left = MAX_ADMITTED - run.inputs.filter(steer=True).count()
    admitted = waiting[: max(room_left, 0)]
    steps = JournalEntry.objects.filter(run=run, kind=JournalEntry.Kind.ASSISTANT).count()
    for given in admitted:
        given.run = run
        given.save(update_fields=["run"])
        append_journal(
            run=run,
            kind=JournalEntry.Kind.INPUT,
            body={**input_body(given), "steered": True},
        )
        policy = policy_of(given, run.policy)
        run.policy = asked_for(policy, offered_tools(run), given.text, since=steps + 1)
        publish_event(
            room_id=run.room_id,
            kind="run.steered",
            actor=run.member,
            data={
                "run": str(run.pk),
                "position": given.position,
                "member": member_card(run.member),
            },
        )
    if admitted:
        run.save(update_fields=["policy", "updated_at"])
    return bool(admitted)
