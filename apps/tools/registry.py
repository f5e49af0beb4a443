"""Which tools of our own exist? A closed set, on purpose.

Every name stands here with the reason why it exists. A new tool widens what every agent may be
offered, so it takes two deliberate edits: this set, and the boundary test that counts it. Being in
the set does not mean being offered: an agent's ceiling and the policy decide that, run by run.
"""

from __future__ import annotations

from types import MappingProxyType

from apps.domain.tooling import Registry
from apps.tools.builtin import about, agents, artifacts
from apps.tools.contract import Tool

AGENT_LOOP_TOOL_NAMES = frozenset(
    {
        "create_artifact",  # write: the way in which anything an agent makes is kept
        "update_artifact",  # write: the way in which what was made is improved, version by version
        "read_artifact",  # read: an agent sees what it is about to change
        "list_available_agents",  # read: an agent can say who else may help this member
        "invoke_agent",  # read: another agent helps, with no right that this one has not
        "search_about",  # read: questions about Kaizen are answered from its own pages
    }
)

_TOOLS = (*artifacts.TOOLS, *agents.TOOLS, *about.TOOLS)


def _register() -> MappingProxyType[str, Tool]:
    registry = Registry()
    for tool in _TOOLS:
        registry.register(tool.spec)
    names = frozenset(registry.snapshot())
    if names != AGENT_LOOP_TOOL_NAMES:
        odd = ", ".join(sorted(names ^ AGENT_LOOP_TOOL_NAMES))
        raise RuntimeError(f"The closed set of tools and their adapters differ: {odd}.")
    return MappingProxyType({tool.spec.name: tool for tool in _TOOLS})


BUILTIN_TOOLS = _register()
