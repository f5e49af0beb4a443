"""The closed set of tools: a new one is a decision, and this file is half of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from apps.domain.policy import ApprovalMode, declared_mode
from apps.domain.tooling import (
    Capability,
    Effect,
    EffectDomain,
    EffectKind,
    Guard,
    NameTaken,
    NotInTheSet,
)
from apps.tools.registry import (
    AGENT_LOOP_TOOL_NAMES,
    BUILTIN_TOOLS,
    THE_SET,
    DishonestKind,
    register_spec,
)
from tests.domain.test_tooling import READ, WRITES, make

# The trip-wire. Whoever changes it widens or narrows what every agent may be offered.
CARDINALITY = 13

# Every kind as it was decided, also of tools that do not exist yet.
DECIDED = {
    Effect.READ: {
        "search conversation_history_search kamiwaza_connector_catalog kamiwaza_connector_rag"
        " kamiwaza_mcp_catalog list_available_agents search_about query_document request_document"
        " visualize_read_me inspect_tasks read_browser_page read_artifact inspect_library"
        " invoke_agent"
    },
    Effect.WRITE: {
        "manage_tasks run_code open_browser_session read_workspace edit_workspace create_artifact"
        " update_artifact edit_artifact begin_artifact append_artifact finalize_artifact"
        " discard_artifact show_widget manage_library"
    },
    Effect.SENSITIVE: {"act_on_browser_page"},
}
KINDS = {name: kind for kind, lines in DECIDED.items() for line in lines for name in line.split()}

APPS = Path(settings.BASE_DIR) / "apps"
BUILTIN = APPS / "tools" / "builtin"
# Where a specification is made of what an administrator admitted, never of our own tools.
OF_PACKAGES = {APPS / "domain" / "packagetools.py"}
# What an agent runs is carried out by a worker, apart from everything of ours.
IN_THE_SANDBOX = {"run_code"}


def declarations() -> Iterator[tuple[Path, str | None]]:
    """Every place in the source that declares a tool, and the name it gives where one is given."""
    for path in APPS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            name = getattr(called, "id", None) or getattr(called, "attr", None)
            if isinstance(node, ast.Call) and name == "specify":
                given = [key.value for key in node.keywords if key.arg == "name"]
                literal = given and isinstance(given[0], ast.Constant) and given[0].value
                yield path, str(literal) if literal else None


def test_the_set_has_not_changed_unnoticed() -> None:
    assert len(AGENT_LOOP_TOOL_NAMES) == CARDINALITY


def test_the_set_and_the_implementations_in_the_source_are_the_same() -> None:
    found = [name for path, name in declarations() if path.is_relative_to(BUILTIN)]
    assert len(found) == len(set(found))
    assert set(found) == AGENT_LOOP_TOOL_NAMES == set(BUILTIN_TOOLS)


def test_a_tool_is_declared_nowhere_else_and_under_a_name_that_can_be_read() -> None:
    elsewhere = {
        path
        for path, name in declarations()
        if (not path.is_relative_to(BUILTIN) or name is None) and path not in OF_PACKAGES
    }
    assert elsewhere == set()


def test_every_name_in_the_set_carries_its_kind_and_the_reason_why_it_exists() -> None:
    for name, entry in THE_SET.items():
        assert BUILTIN_TOOLS[name].spec.effect is entry.kind
        assert re.fullmatch(r"[A-Z].{20,}\.", entry.why)


@pytest.mark.parametrize("name", sorted(AGENT_LOOP_TOOL_NAMES))
def test_each_tool_is_of_the_kind_that_was_decided(name: str) -> None:
    assert BUILTIN_TOOLS[name].spec.effect is KINDS[name]


@pytest.mark.parametrize("name", sorted(AGENT_LOOP_TOOL_NAMES))
def test_whatever_outlives_the_turn_is_a_write(name: str) -> None:
    spec = BUILTIN_TOOLS[name].spec
    harms = [
        declared
        for declared in spec.side_effects
        if declared.kind not in (EffectKind.READS, EffectKind.NETWORK)
    ]
    lasting = [
        declared
        for declared in harms
        if not declared.refreshes_derived_state and not declared.ends_with_the_turn
    ]
    assert bool(lasting) == (spec.effect is not Effect.READ)
    assert not (spec.parallel_safe and harms)
    # Starting others is a right of its own, though whatever they do is decided call by call.
    spawns = any(declared.ends_with_the_turn for declared in spec.side_effects)
    assert (spec.capability.reads_only or spawns) == (spec.effect is Effect.READ)


@pytest.mark.parametrize("name", sorted(AGENT_LOOP_TOOL_NAMES))
def test_our_own_tools_commit_with_their_settlement_and_ask_nobody(name: str) -> None:
    spec = BUILTIN_TOOLS[name].spec
    # What runs apart hands back what it would keep, and that commits with its settlement as well.
    confined = name in IN_THE_SANDBOX
    assert spec.guard is (Guard.ISOLATED if confined else Guard.MEMBER_STORE)
    assert spec.effect_domain is (EffectDomain.CHECKPOINTED if confined else EffectDomain.OURS)
    assert spec.later is confined
    # What works on the files of programs is there where programs can run, and not otherwise.
    assert BUILTIN_TOOLS[name].needs_sandbox is (spec.capability is Capability.CODE_RUN)
    assert declared_mode(spec) is not ApprovalMode.ASK_EVERY_TIME


def test_only_a_create_is_previewed() -> None:
    previewed = {n for n, t in BUILTIN_TOOLS.items() if t.spec.previewed_argument}
    assert previewed == {"create_artifact"}


def test_nothing_registers_once_the_set_is_full() -> None:
    handler = BUILTIN_TOOLS["search_about"].handler
    with pytest.raises(NotInTheSet):
        register_spec(make(side_effects=WRITES), handler)
    with pytest.raises(NameTaken):
        register_spec(BUILTIN_TOOLS["search_about"].spec, handler)


def test_a_write_does_not_register_as_the_read_that_was_decided() -> None:
    spec = make(name="search_about", side_effects=WRITES)
    with pytest.raises(DishonestKind):
        register_spec(spec, BUILTIN_TOOLS["search_about"].handler)
    with pytest.raises(DishonestKind):
        register_spec(make(name="create_artifact", **READ), BUILTIN_TOOLS["search_about"].handler)
