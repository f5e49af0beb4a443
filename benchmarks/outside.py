"""Tools whose effects lie outside the database, one line each in a file that only grows.

They stand beside the closed registry inside a benchmark's own processes. What package code would
do in the sandbox is counted in the same file, so whatever is carried out anywhere leaves a line.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from apps.domain.tooling import (
    Capability,
    CollaborationClass,
    DeclaredEffect,
    Effect,
    EffectDomain,
    EffectKind,
    Guard,
    Specification,
    ToolOk,
    specify,
)
from apps.sandbox.runner import ReplyKind, ToolReply
from apps.tools import catalog, packaged
from apps.tools.contract import CallContext, Tool
from apps.tools.registry import BUILTIN_TOOLS
from benchmarks.effects import READ, WRITE, Effects


def before_effect() -> None:
    """Stand right before what cannot be taken back."""


def after_effect() -> None:
    """Stand right behind it."""


def replace(module: ModuleType, name: str, value: Any) -> Any:
    """Put something else in a module's place for a name, and return what stood there."""
    before = getattr(module, name)
    setattr(module, name, value)
    return before


def install(path: Path, *, seconds: float = 0.0) -> Effects:
    """Offer both tools in this process, and count what would run in the sandbox."""
    effects = Effects(path)

    def act(arguments: dict[str, Any], context: CallContext) -> ToolOk:
        before_effect()
        effects.add(str(context.call_id), arguments["mark"])
        after_effect()
        time.sleep(seconds)
        return ToolOk({"done": True})

    def in_sandbox(*, arguments: dict[str, Any], **_: Any) -> ToolReply:
        effects.add("-", str(arguments.get("mark", "-")))
        return ToolReply(ReplyKind.VALUE, value={"done": True})

    tools = {spec.name: Tool(spec, act) for spec in (_specification(WRITE), _specification(READ))}
    replace(catalog, "BUILTIN_TOOLS", MappingProxyType({**BUILTIN_TOOLS, **tools}))
    replace(packaged, "call_python_tool", in_sandbox)
    return effects


def _specification(name: str) -> Specification:
    read = name == READ
    kind = EffectKind.READS if read else EffectKind.EXTERNAL_SIDE_EFFECT
    return specify(
        name=name,
        title="Look outside" if read else "Send a letter",
        description="Look at something outside." if read else "Send a letter to somebody.",
        input_schema={
            "type": "object",
            "properties": {"mark": {"type": "string", "maxLength": 80}},
            "required": ["mark"],
            "additionalProperties": False,
        },
        effect=Effect.READ if read else Effect.WRITE,
        capability=Capability.ARTIFACTS_READ if read else Capability.ARTIFACTS_WRITE,
        side_effects=(DeclaredEffect(kind),),
        guard=Guard.EXTERNAL,
        effect_domain=EffectDomain.EXTERNAL,
        collaboration=(
            CollaborationClass.ACTOR_BOUND_READ if read else CollaborationClass.ACTOR_BOUND_WRITE
        ),
        later=True,
    )
