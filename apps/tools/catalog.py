"""Which tools is a run offered, and what does a name in its frozen catalog stand for now?

The catalog is projected once, when the run begins, and frozen with a digest. A name is resolved
again at every call: where what it stands for has changed since, the digests differ and the policy
refuses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apps.agents.models import Agent
from apps.domain.tooling import Capability, Descriptor, catalog_digest
from apps.tools.contract import Tool
from apps.tools.packaged import packaged_tools
from apps.tools.registry import BUILTIN_TOOLS


def offered_tools(agent: Agent) -> list[Tool]:
    """Return the tools under an agent's ceiling: our own, and the package tools it was granted."""
    ceiling = frozenset(agent.ceiling)
    own = [tool for tool in BUILTIN_TOOLS.values() if tool.spec.capability.value in ceiling]
    if Capability.PACKAGES_CALL.value not in ceiling:
        return own
    return own + list(packaged_tools(agent.pk).values())


def freeze_catalog(tools: Iterable[Tool]) -> tuple[dict[str, Any], str]:
    """Return the catalog that a run keeps, and its digest."""
    descriptors: list[Descriptor] = []
    entries: dict[str, Any] = {}
    for tool in tools:
        descriptor = tool.spec.descriptor()
        descriptors.append(descriptor)
        entries[tool.spec.name] = {
            **descriptor.as_dict(),
            "title": tool.spec.title,
            "effect": tool.spec.effect.value,
            "digest": tool.spec.digest,
        }
    return {"tools": entries}, catalog_digest(descriptors)


def resolve_tool(name: str, agent: Agent) -> Tool | None:
    """Return what a name stands for now, for this agent; None where it stands for nothing."""
    own = BUILTIN_TOOLS.get(name)
    if own is not None:
        return own
    return packaged_tools(agent.pk).get(name)
