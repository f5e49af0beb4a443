"""What do Kaizen's own pages say?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

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
from apps.library import selectors
from apps.tools.contract import CallContext, Tool


def search_about(arguments: dict[str, Any], context: CallContext) -> ToolOk | ToolFailure:
    """Return bounded excerpts of the product's documentation."""
    found = selectors.search_about(arguments["query"])
    return ToolOk(
        {"excerpts": [asdict(excerpt) for excerpt in found]},
        provenance={"pages": [excerpt.path for excerpt in found]} if found else {},
    )


TOOLS = (
    Tool(
        specify(
            name="search_about",
            title="Search Kaizen's documentation",
            description=(
                "Search the documentation of Kaizen itself and get short excerpts with their"
                " pages. For questions about this product only."
            ),
            input_schema={
                "type": "object",
                "properties": {"query": {"type": "string", "minLength": 1, "maxLength": 400}},
                "required": ["query"],
                "additionalProperties": False,
            },
            effect=Effect.READ,
            capability=Capability.DOCS_READ,
            side_effects=(DeclaredEffect(EffectKind.READS, "docs"),),
            parallel_safe=True,
            intent_hints=(
                "what is kaizen",
                "how does kaizen",
                "about kaizen",
                "kaizen documentation",
                "kaizen's documentation",
            ),
            guard=Guard.MEMBER_STORE,
            effect_domain=EffectDomain.OURS,
            collaboration=CollaborationClass.ACTOR_BOUND_READ,
        ),
        search_about,
    ),
)
