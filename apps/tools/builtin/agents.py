"""Which agents could help this member, and how does one let another work for it?"""

from __future__ import annotations

from typing import Any

from apps.agents.models import Agent
from apps.agents.selectors import usable_agents
from apps.domain.tooling import (
    Capability,
    CollaborationClass,
    DeclaredEffect,
    Effect,
    EffectDomain,
    EffectKind,
    Guard,
    Reason,
    ToolFailure,
    ToolHandedOn,
    ToolOk,
    specify,
)
from apps.runs.children import start_child
from apps.runs.models import Call, Run
from apps.runs.selectors import ceiling_of, line_of
from apps.tools.contract import CallContext, Tool

MAX_DEPTH = 3
MAX_CHILDREN = 8
MAX_AT_WORK = 16
"""Runs that may work for others in one room at the same time."""
MAX_TASK = 8_000


def list_available_agents(arguments: dict[str, Any], context: CallContext) -> ToolOk | ToolFailure:
    """Return the enabled agents that the member may use, by name."""
    agents, more = usable_agents(context.member)
    listed = [
        {"slug": agent.slug, "name": agent.name, "description": agent.description}
        for agent in agents
    ]
    return ToolOk({"agents": listed, "more": more})


def invoke_agent(arguments: dict[str, Any], context: CallContext) -> ToolFailure | ToolHandedOn:
    """Let another agent of the member work on a task, within what this run itself may do.

    It is offered at most the tools of this run's own catalog, under both agents' ceilings. The
    call ends when the other agent's run has ended, with its last word.
    """
    parent = Run.objects.select_related("agent", "member").get(pk=context.run_id)
    agent = (
        Agent.objects.visible_to(context.member)
        .filter(slug=arguments["agent"], enabled=True)
        .first()
    )
    if agent is None:
        return ToolFailure(Reason.NOT_FOUND, "No agent that the member may use has that name.")
    if refused := _too_many(parent, agent):
        return ToolFailure(Reason.LIMIT_EXCEEDED, refused)
    held = frozenset((parent.catalog or {}).get("tools", {}))
    if parent.selection is not None:
        held &= frozenset(parent.selection)
    if "tools" in arguments:
        held &= frozenset(arguments["tools"])
    child = start_child(
        parent=parent,
        call=Call.objects.get(pk=context.call_id),
        agent=agent,
        text=arguments["task"],
        ceiling=sorted(ceiling_of(parent) & frozenset(agent.ceiling)),
        selection=sorted(held),
    )
    return ToolHandedOn(to=f"run:{child.pk}")


def _too_many(parent: Run, agent: Agent) -> str:
    """Say which bound a further run would break, or nothing."""
    if parent.depth >= MAX_DEPTH:
        return f"Agents call each other at most {MAX_DEPTH} deep. Do this task without another."
    if agent.pk in line_of(parent):
        return f"{agent.name} already works on this, or waits for it. Call another agent, or none."
    if parent.children.count() >= MAX_CHILDREN:
        return f"This run has already called {MAX_CHILDREN} agents. Go on without another."
    at_work = Run.objects.filter(room_id=parent.room_id, parent__isnull=False)
    if at_work.exclude(state=Run.State.FINISHED).count() >= MAX_AT_WORK:
        return f"{MAX_AT_WORK} agents already work for others in this room. Try again later."
    return ""


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
    Tool(
        specify(
            name="invoke_agent",
            title="Let another agent help",
            description=(
                "Give another agent of the member a task and get its answer. It knows nothing of"
                " this conversation, so the task says everything that it needs. It can use at most"
                " the tools that you have yourself; name some of them to allow it no others."
            ),
            input_schema={
                "type": "object",
                "properties": {
                    "agent": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 40,
                        "description": "The slug of the agent, as list_available_agents says.",
                    },
                    "task": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": MAX_TASK,
                        "description": "What it should do, and everything it needs to know.",
                    },
                    "tools": {
                        "type": "array",
                        "items": {"type": "string", "maxLength": 64},
                        "maxItems": 50,
                        "description": "The only tools it may use. Leave out for all of yours.",
                    },
                },
                "required": ["agent", "task"],
                "additionalProperties": False,
            },
            output_schema={
                "type": "object",
                "properties": {
                    "agent": {"type": "string"},
                    "answer": {"type": "string"},
                    "run": {"type": "string"},
                },
                "required": ["agent", "answer", "run"],
                "additionalProperties": False,
            },
            effect=Effect.READ,
            capability=Capability.AGENTS_INVOKE,
            side_effects=(DeclaredEffect(EffectKind.SPAWNS_RUN, "turn:agents"),),
            guard=Guard.MEMBER_STORE,
            effect_domain=EffectDomain.OURS,
            collaboration=CollaborationClass.ACTOR_BOUND_READ,
            outside_data=True,
        ),
        invoke_agent,
    ),
)
