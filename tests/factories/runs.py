"""A run that has ended, without a sandbox or a worker behind it."""

from __future__ import annotations

from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.rooms.services import create_room
from apps.runs.models import Call, Run


def finished_run() -> Run:
    """A finished run with one call whose outcome nobody knows."""
    mara = User.objects.create_user("mara", display_name="Mara Lindqvist")
    made = Run.objects.create(
        room=create_room(creator=mara, name="Incident 4127"),
        agent=Agent.objects.create(slug="scribe", name="Scribe", owner=mara),
        member=mara,
        state=Run.State.FINISHED,
        outcome=Run.Outcome.COMPLETED,
        deadline_at=timezone.now(),
        finished_at=timezone.now(),
        correlation_id="c1",
    )
    Call.objects.create(
        run=made,
        step=1,
        place=1,
        proposal_id="p1",
        tool="a_tool_with_a_name_that_is_longer_than_a_phone_is_wide",
        title="Send it",
        effect="write",
        arguments={},
        arguments_digest="sha256:" + "ab" * 32,
        state="settled",
        outcome="ambiguous",
        dispatched_at=timezone.now(),
        settled_at=timezone.now(),
    )
    return made
