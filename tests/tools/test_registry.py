"""The closed set of tools: a new one is a decision, and this file is half of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from apps.domain.policy import ApprovalMode, approval_mode
from apps.domain.tooling import Effect, EffectDomain, Guard
from apps.tools import builtin
from apps.tools.registry import AGENT_LOOP_TOOL_NAMES, BUILTIN_TOOLS

# The trip-wire. Whoever changes it widens or narrows what every agent may be offered.
CARDINALITY = 6

BY_EFFECT = {
    Effect.READ: {"read_artifact", "list_available_agents", "invoke_agent", "search_about"},
    Effect.WRITE: {"create_artifact", "update_artifact"},
    Effect.SENSITIVE: set(),
}


def names_in_source() -> set[str]:
    """Every name that an adapter's source gives to `specify`."""
    found = set()
    for path in Path(builtin.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "specify":
                found |= {
                    keyword.value.value
                    for keyword in node.keywords
                    if keyword.arg == "name" and isinstance(keyword.value, ast.Constant)
                }
    return found


def test_the_set_has_not_changed_unnoticed() -> None:
    assert len(AGENT_LOOP_TOOL_NAMES) == CARDINALITY


def test_the_set_and_the_adapters_in_the_source_are_the_same() -> None:
    assert names_in_source() == AGENT_LOOP_TOOL_NAMES == set(BUILTIN_TOOLS)


def test_every_name_in_the_set_carries_the_reason_why_it_exists() -> None:
    source = (Path(builtin.__file__).parent.parent / "registry.py").read_text()
    for name in AGENT_LOOP_TOOL_NAMES:
        line = next(line for line in source.splitlines() if f'"{name}",' in line)
        assert line.partition("#")[2].strip().split(":")[0] in {"read", "write", "sensitive"}


@pytest.mark.parametrize("effect", list(Effect))
def test_each_tool_is_of_the_kind_that_was_decided(effect: Effect) -> None:
    assert {n for n, t in BUILTIN_TOOLS.items() if t.spec.effect is effect} == BY_EFFECT[effect]


@pytest.mark.parametrize("name", sorted(AGENT_LOOP_TOOL_NAMES))
def test_our_own_tools_commit_with_their_settlement_and_ask_nobody(name: str) -> None:
    spec = BUILTIN_TOOLS[name].spec
    assert spec.guard is Guard.MEMBER_STORE
    assert spec.effect_domain is EffectDomain.OURS
    assert not spec.later
    assert approval_mode(spec) is not ApprovalMode.ASK_EVERY_TIME


def test_only_a_create_is_previewed() -> None:
    previewed = {n for n, t in BUILTIN_TOOLS.items() if t.spec.previewed_argument}
    assert previewed == {"create_artifact"}
