"""Which tools is a run offered, and what does a name in its frozen catalog stand for now?

The catalog is projected once, when the run begins, and frozen with a digest. Whatever the policy
would refuse anyway is left out of it. A name is resolved again at every call: where what it stands
for has changed since, the digests differ and the policy refuses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from apps.accounts.capabilities import capabilities_of
from apps.agents.models import Agent
from apps.domain.policy import Facts, Narrowing, may_be_offered
from apps.domain.staging import protocol_of
from apps.domain.tooling import Capability, Descriptor, Specification, catalog_digest
from apps.grants.policy import DeploymentPolicy, deployment_policy
from apps.grants.selectors import choice_of, narrowing
from apps.packages.selectors import active_package_tools
from apps.rooms.models import Participant
from apps.runs.models import Run
from apps.runs.selectors import agents_ceiling
from apps.tools.contract import Tool
from apps.tools.packaged import as_tool, packaged_tool, packaged_tools
from apps.tools.registry import BUILTIN_TOOLS


def offered_tools(run: Run, *, whatever_is_kept: bool = False) -> list[Tool]:
    """Return the tools that a run may be offered as things stand, in the room where it works.

    Built in or granted, under the agent's ceiling and what the run was given, let in by the tool
    policy, kept by the member, and fit for those who are in the room.
    """
    policy = deployment_policy()
    facts = _facts(run, policy)
    if whatever_is_kept:
        facts = replace(facts, member_choice=Narrowing())
    found = (pinned(tool, policy) for tool in _held_tools(run.agent))
    offered = [tool for tool in found if may_be_offered(tool.spec, replace_tool(facts, tool))]
    return _in_company(_whole_protocols(_held_above(run, offered)))


def known_specs(agent: Agent) -> dict[str, Specification]:
    """Return what the names that an agent may have called say of themselves, offered or not."""
    return {tool.spec.name: tool.spec for tool in _held_tools(agent)}


def freeze(run: Run) -> list[str]:
    """Freeze what a run is offered, and what its member keeps; return the fields that changed."""
    chosen = choice_of(room_id=run.room_id, agent_id=run.agent_id, member_id=run.member_id)
    kept = narrowing(run.selection).narrowed(chosen)
    run.selection = None if kept.names is None else sorted(kept.names)
    run.catalog, run.catalog_digest = freeze_catalog(offered_tools(run))
    return ["selection", "catalog", "catalog_digest"]


def freeze_catalog(tools: Iterable[Tool]) -> tuple[dict[str, Any], str]:
    """Return the catalog that a run keeps, and its digest."""
    descriptors: list[Descriptor] = []
    entries: dict[str, Any] = {}
    for tool in tools:
        descriptor = tool.descriptor()
        descriptors.append(descriptor)
        entries[tool.spec.name] = {
            **descriptor.as_dict(),
            "title": tool.spec.title,
            "effect": tool.spec.effect.value,
            "digest": tool.digest,
        }
    return {"tools": entries}, catalog_digest(descriptors)


def canonical_name(word: str) -> str:
    """Return the name of the tool of ours that answers to this word, or else the word itself.

    Everything after it knows one name of a tool: its catalog, its row, its digests, its lessons.
    """
    if word in BUILTIN_TOOLS:
        return word
    answers = (name for name, tool in BUILTIN_TOOLS.items() if word in tool.spec.aliases)
    return next(answers, word)


def resolve_tool(name: str, agent: Agent, policy: DeploymentPolicy) -> Tool | None:
    """Return what a name stands for now, for this agent; None where it stands for nothing."""
    tool = BUILTIN_TOOLS.get(name) or packaged_tool(agent.pk, name)
    return None if tool is None else pinned(tool, policy)


def known_tool(name: str, agent: Agent, policy: DeploymentPolicy) -> tuple[Tool, bool] | None:
    """Return what a name stands for, and whether this agent holds it.

    A package tool that the agent was not granted is the one of the active version.
    """
    if held := resolve_tool(name, agent, policy):
        return held, True
    row = active_package_tools().filter(name=name).first()
    tool = None if row is None else as_tool(row)
    return None if tool is None else (pinned(tool, policy), False)


def pinned(tool: Tool, policy: DeploymentPolicy) -> Tool:
    """Return a tool with the arguments that the deployment sets itself."""
    pins = policy.pins_of(tool.spec)
    return replace(tool, pins=pins) if pins else tool


def replace_tool(facts: Facts, tool: Tool) -> Facts:
    """Return facts of the same place and people, about one tool that the agent holds."""
    hindrance = tool.hindrance
    return replace(
        facts,
        tool_enabled=not hindrance,
        tool_hindrance=hindrance,
        granted_tools=frozenset({tool.spec.name}),
    )


def _held_above(run: Run, tools: list[Tool]) -> list[Tool]:
    """Of a run that works for another, keep what that one holds, and the very same of it.

    A tool of the same name that stands for something else, by another grant, is another tool.
    """
    if run.parent is None:
        return tools
    above = (run.parent.catalog or {}).get("tools", {})
    return [tool for tool in tools if above.get(tool.spec.name, {}).get("digest") == tool.digest]


def _whole_protocols(tools: list[Tool]) -> list[Tool]:
    """Leave out what belongs to a protocol of which the run lacks a part."""
    names = {tool.spec.name for tool in tools}
    return [tool for tool in tools if names.issuperset(protocol_of(tool.spec.name) or ())]


def _in_company(tools: list[Tool]) -> list[Tool]:
    """Leave out what is of use, or of no harm, only beside another tool that is not there."""
    names = {tool.spec.name for tool in tools}
    return [tool for tool in tools if not tool.goes_with or tool.goes_with in names]


def _held_tools(agent: Agent) -> list[Tool]:
    own = list(BUILTIN_TOOLS.values())
    if Capability.PACKAGES_CALL.value not in agent.ceiling:
        return own
    return own + list(packaged_tools(agent.pk).values())


def _facts(run: Run, policy: DeploymentPolicy) -> Facts:
    others = Participant.objects.filter(room_id=run.room_id, left_at=None).exclude(
        user_id=run.member_id
    )
    return Facts(
        member_active=run.member.is_active,
        member_may_take_part=None,
        member_permissions=capabilities_of(run.member),
        agent_enabled=run.agent.enabled,
        agent_ceiling=agents_ceiling(run),
        granted_tools=frozenset(),
        in_catalog=None,
        descriptor_digest_catalog=None,
        descriptor_digest_now=None,
        tool_enabled=None,
        room_closed=None,
        roster_is_actor_only=not others.exists(),
        run_state_ok=None,
        fence_ok=None,
        stop_requested=None,
        policy_tree=policy.tree,
        run_ceiling=narrowing(run.ceiling),
        run_selection=narrowing(run.selection),
        member_choice=choice_of(
            room_id=run.room_id, agent_id=run.agent_id, member_id=run.member_id
        ),
    )
