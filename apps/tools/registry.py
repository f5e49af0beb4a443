"""Which tools of our own exist? A closed set, on purpose.

Every name stands here with its kind and the reason why it exists. A new tool widens what every
agent may be offered, so it takes two deliberate edits: this set, and the boundary test that counts
it. Being in the set does not mean being offered: an agent's ceiling and the policy decide that,
run by run.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

from apps.domain.tooling import Effect, Registry, Specification
from apps.tools.builtin import about, agents, artifacts, run_code, staged, workspace
from apps.tools.contract import Handler, Tool


class Entry(NamedTuple):
    """What kind a tool of the set is, and why it exists."""

    kind: Effect
    why: str


THE_SET: Final = MappingProxyType(
    {
        "create_artifact": Entry(Effect.WRITE, "Anything that an agent makes is kept this way."),
        "update_artifact": Entry(Effect.WRITE, "What was made is improved, version by version."),
        "read_artifact": Entry(Effect.READ, "An agent sees what it is about to change."),
        "begin_artifact": Entry(Effect.WRITE, "What is long is written in pieces, as a draft."),
        "append_artifact": Entry(Effect.WRITE, "A draft grows from exactly what it held before."),
        "finalize_artifact": Entry(Effect.WRITE, "A draft that is complete is shown to the room."),
        "discard_artifact": Entry(Effect.WRITE, "A draft that nobody wants is thrown away."),
        "list_available_agents": Entry(Effect.READ, "An agent can say who else may help."),
        "invoke_agent": Entry(Effect.READ, "Another agent helps, with no right of its own."),
        "run_code": Entry(Effect.WRITE, "Agents compute, and make what cannot be written as text."),
        "read_workspace": Entry(Effect.WRITE, "What programs made and need is read by line."),
        "edit_workspace": Entry(Effect.WRITE, "A program is mended where it is wrong, in place."),
        "search_about": Entry(Effect.READ, "Questions about Kaizen are answered from its pages."),
    }
)
AGENT_LOOP_TOOL_NAMES: Final = frozenset(THE_SET)

_REGISTRY: Final[Registry[Handler]] = Registry(AGENT_LOOP_TOOL_NAMES)


class DishonestKind(ValueError):
    """A tool whose specification is of another kind than the one that was decided."""


def register_spec(spec: Specification, executor: Handler) -> None:
    """Register one of our own tools: its whole specification and what carries it out.

    The set is full once this module is loaded, so nothing that comes later finds a free name.
    """
    decided = THE_SET.get(spec.name) if isinstance(spec, Specification) else None
    if decided is not None and spec.effect is not decided.kind:
        raise DishonestKind(f"{spec.name} was decided to be a {decided.kind}, not {spec.effect}.")
    _REGISTRY.register_spec(spec, executor)


def _builtin_tools() -> MappingProxyType[str, Tool]:
    tools = (
        *artifacts.TOOLS, *staged.TOOLS, *agents.TOOLS, *about.TOOLS, *run_code.TOOLS,
        *workspace.TOOLS,
    )  # fmt: skip
    for tool in tools:
        register_spec(tool.spec, tool.handler)
    registered = _REGISTRY.snapshot()
    missing = AGENT_LOOP_TOOL_NAMES - registered.keys()
    if missing:
        raise RuntimeError(f"The closed set names tools without adapters: {sorted(missing)}.")
    return MappingProxyType({tool.spec.name: tool for tool in tools})


BUILTIN_TOOLS: Final = _builtin_tools()
