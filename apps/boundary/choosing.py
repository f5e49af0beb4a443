"""What could an agent use for this member in this room, and what of it does the member leave it?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.accounts.models import User
from apps.grants.selectors import choice_of
from apps.grants.services import seat_of
from apps.runs.models import Run
from apps.tools.catalog import offered_tools


@dataclass(frozen=True, slots=True)
class ChosenTool:
    """One tool, as somebody who chooses sees it."""

    name: str
    title: str
    effect: str
    kept: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """What a member keeps, among everything that the agent would be offered without a choice."""

    narrowed: bool
    tools: list[ChosenTool]


def choice_in(*, room_id: Any, agent_slug: str, member: User) -> Choice:
    """Return a member's choice about an agent in a room that they take part in."""
    seat = seat_of(room_id=room_id, agent_slug=agent_slug, member=member)
    kept = choice_of(room_id=seat.room_id, agent_id=seat.agent_id, member_id=member.pk)
    # A run that nobody starts; whatever the member took away is shown, so that it can come back.
    run = Run(room_id=seat.room_id, agent=seat.agent, member=member)
    tools = [
        ChosenTool(
            name=tool.spec.name,
            title=tool.spec.title,
            effect=tool.spec.effect.value,
            kept=kept.holds(tool.spec.name),
        )
        for tool in offered_tools(run, whatever_is_kept=True)
    ]
    return Choice(narrowed=kept.names is not None, tools=tools)
