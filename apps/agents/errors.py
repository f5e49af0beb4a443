"""How do agents say no?"""

from __future__ import annotations

from apps.core.errors import Conflict, Invalid, NotFound


class AgentNotFound(NotFound):
    """No agent that this member may use has that name."""


class BadAgent(Invalid):
    """A slug, name, persona or ceiling that an agent cannot have."""


class SlugTaken(Conflict):
    """Another agent has that slug."""

    code = "slug_taken"


class StaleRevision(Conflict):
    """The agent has changed since the revision that the writer saw."""

    code = "stale_revision"


class TooManyAgents(Conflict):
    """A member owns a bounded number of agents."""

    code = "too_many_agents"
