"""A tool whose effect lies outside the database, where it can be counted."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from apps.domain.tooling import (
    Capability,
    CollaborationClass,
    DeclaredEffect,
    Effect,
    EffectDomain,
    EffectKind,
    Guard,
    ToolOk,
    specify,
)
from apps.tools import catalog
from apps.tools.contract import CallContext, Handler, Tool


def outside_tool(
    handler: Handler, *, name: str = "send_letter", effect: Effect = Effect.WRITE, **words: Any
) -> Tool:
    """A tool that acts outside Kaizen, and so asks every time if it writes."""
    kind = EffectKind.READS if effect is Effect.READ else EffectKind.EXTERNAL_SIDE_EFFECT
    spec = specify(
        name=name,
        title="Send a letter",
        description="Send a letter to somebody.",
        input_schema={
            "type": "object",
            "properties": {"to": {"type": "string"}},
            "required": ["to"],
            "additionalProperties": False,
        },
        effect=effect,
        capability=(
            Capability.ARTIFACTS_READ if effect is Effect.READ else Capability.ARTIFACTS_WRITE
        ),
        side_effects=(DeclaredEffect(kind),),
        guard=Guard.EXTERNAL,
        effect_domain=EffectDomain.EXTERNAL,
        collaboration=(
            CollaborationClass.ACTOR_BOUND_READ
            if effect is Effect.READ
            else CollaborationClass.ACTOR_BOUND_WRITE
        ),
        later=True,
        **words,
    )
    return Tool(spec, handler)


def own_tool(
    handler: Handler, *, name: str = "own", effect: Effect = Effect.READ, **words: Any
) -> Tool:
    """A tool of ours, which is carried out within the transaction that settles it."""
    reads = effect is Effect.READ
    spec = specify(
        name=name,
        title=name.capitalize(),
        description="Do something with what is ours.",
        input_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
        effect=effect,
        capability=Capability.ARTIFACTS_READ if reads else Capability.ARTIFACTS_WRITE,
        guard=Guard.MEMBER_STORE,
        effect_domain=EffectDomain.OURS,
        collaboration=(
            CollaborationClass.ACTOR_BOUND_READ if reads else CollaborationClass.ACTOR_BOUND_WRITE
        ),
        **words,
    )
    return Tool(spec, handler)


class Letters:
    """The letters that were really sent, one line each in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def handler(self, arguments: dict[str, Any], context: CallContext) -> ToolOk:
        """Send one."""
        with self.path.open("a") as file:
            file.write(f"{context.call_id} {arguments['to']}\n")
        return ToolOk({"sent": True})

    @property
    def sent(self) -> list[str]:
        """What was sent."""
        return self.path.read_text().splitlines() if self.path.exists() else []


def offer(monkeypatch: pytest.MonkeyPatch, *tools: Tool) -> None:
    """Offer these besides the closed set, for the length of a test."""
    known = {**catalog.BUILTIN_TOOLS, **{tool.spec.name: tool for tool in tools}}
    monkeypatch.setattr(catalog, "BUILTIN_TOOLS", MappingProxyType(known))
