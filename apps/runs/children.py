"""How does an agent work for another one's call? In a run of its own, within what that run may."""

from __future__ import annotations

from apps.agents.models import Agent
from apps.audit.services import record
from apps.core.queue import ring
from apps.rooms.services import publish_event
from apps.runs.causes import inherited
from apps.runs.models import Call, JournalEntry, Run
from apps.runs.services import TURN_TASK, actor_of, agent_card, append_journal, member_card


def start_child(
    *, parent: Run, call: Call, agent: Agent, text: str, ceiling: list[str], selection: list[str]
) -> Run:
    """Let another agent work for a call of a run, within what that run may do. Both are locked.

    It has the parent's member, room, cause and deadline, and no seat: its last word goes to the
    call. The call's own row makes it the only one.
    """
    run = Run.objects.create(
        room_id=parent.room_id,
        agent=agent,
        member=parent.member,
        **inherited(parent),
        parent=parent,
        parent_call=call,
        depth=parent.depth + 1,
        ceiling=ceiling,
        selection=selection,
        budget_s=_time_left(parent),
        deadline_at=parent.deadline_at,
        correlation_id=parent.correlation_id,
    )
    # A child knows its task and not the room's talk: nothing was said before position 0.
    append_journal(run=run, kind=JournalEntry.Kind.INPUT, body={"text": text, "position": 0})
    record(
        actor=parent.member,
        action="run.started",
        subject=run,
        detail={"agent": agent.slug, "parent": str(parent.pk), "call": str(call.pk)},
    )
    publish_event(
        room_id=run.room_id,
        kind="run.started",
        actor=actor_of(parent.agent),
        data={
            "run": str(run.pk),
            "agent": agent_card(agent),
            "member": member_card(run.member),
            "parent": str(parent.pk),
        },
    )
    ring(TURN_TASK, run_id=str(run.pk))
    return run


def _time_left(run: Run) -> int | None:
    return None if run.budget_s is None else max(1, run.budget_s - run.spent_ms // 1000)
