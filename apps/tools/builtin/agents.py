"""Which agents could help this member?"""

from __future__ import annotations

from typing import Any

from apps.agents.selectors import usable_agents
from apps.domain.tooling import (
    Capability,
    CollaborationClass,
    DeclaredEffect,
    Effect,
    EffectDomain,
    EffectKind,
    Guard,
    ToolFailure,
    ToolOk,
    specify,
)
from apps.tools.contract import CallContext, Tool


def list_available_agents(arguments: dict[str, Any], context: CallContext) -> ToolOk | ToolFailure:
    """Return the enabled agents that the member may use, by name."""
    agents, more = usable_agents(context.member)
    listed = [
        {"slug": agent.slug, "name": agent.name, "description": agent.description}
        for agent in agents
    ]
    return ToolOk({"agents": listed, "more": more})


TOOLS = (
    Tool(
        specify(
            name="list_available_agents",
            title="List the member's agents",
            description="List the agents that the member may use, with what each is for.",
            input_schema={"type": "object", "properties": {}, "additionalProperties": False},
            effect=Effect.READ,
            capability=Capability.AGENTS_READ,
            side_effects=(DeclaredEffect(EffectKind.READS, "agents"),),
            parallel_safe=True,
            guard=Guard.MEMBER_STORE,
            effect_domain=EffectDomain.OURS,
            collaboration=CollaborationClass.ACTOR_BOUND_READ,
        ),
        list_available_agents,
    ),
)
