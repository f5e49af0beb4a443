"""What do readers ask of agents?"""

from __future__ import annotations

from typing import Any

from django.db.models import BigIntegerField, QuerySet

from apps.accounts.models import User
from apps.accounts.permissions import Permission, held, held_under, may, members_with
from apps.agents.errors import AgentNotFound
from apps.agents.models import Agent
from apps.core.errors import Forbidden
from apps.core.prepared import Given, Prepared


def agents_for(member: User) -> QuerySet[Agent]:
    """Return the agents that the member may use or manage."""
    rows: QuerySet[Agent] = Agent.objects.visible_to(member).select_related("owner")
    return rows


MAX_USABLE = 50


def usable_agents(member: User) -> tuple[list[Agent], bool]:
    """Return the first enabled agents that the member may use, by name, and if there are more.

    Of each only slug, name and description are read.
    """
    found = _USABLE.all(member=member.pk) if member.is_active else []
    return found[:MAX_USABLE], len(found) > MAX_USABLE


def _usable() -> QuerySet[Agent]:
    rows = held_under(
        Agent.objects.filter(enabled=True),
        Given("member", BigIntegerField()),
        Permission.AGENT_USE,
        Permission.AGENT_MANAGE,
    )
    return rows.only("slug", "name", "description")[: MAX_USABLE + 1]


_USABLE = Prepared(_usable)


def visible_agent(*, slug: str, member: User) -> Agent:
    """Return an agent that the member may use or manage, or refuse as if it did not exist."""
    agent = agents_for(member).filter(slug=slug).first()
    if agent is None:
        raise AgentNotFound("No agent that you may use has that name.")
    return agent


def shares_of(*, slug: str, member: User) -> QuerySet[User]:
    """Return with whom an agent is shared, for those who manage it; `more` says who else does."""
    agent = visible_agent(slug=slug, member=member)
    if not may_manage(member, agent):
        raise Forbidden("Who may change an agent sees with whom it is shared.")
    found = members_with(agent, Permission.AGENT_USE, Permission.AGENT_MANAGE)
    return found.exclude(pk=agent.owner_id)


def managed_ids(member: User) -> set[Any]:
    """Return the ids of the agents that the member manages."""
    return set(
        held(Agent.objects.all(), member, Permission.AGENT_MANAGE).values_list("pk", flat=True)
    )


def may_manage(member: User, agent: Agent) -> bool:
    """Say whether the member manages this agent, or has the duty of looking after all of them."""
    return may(member, Permission.AGENT_MANAGE, agent) or may(member, Permission.AGENT_MANAGE)
