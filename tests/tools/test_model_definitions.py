"""Tools that a model writes are no tools: nothing compiles them, and no label brings them back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from apps.agents.models import Agent
from apps.agents.services import create_agent
from apps.core.errors import Invalid
from apps.domain.tooling import Registry, Untyped
from apps.runs.bodies import projection_of
from apps.runs.models import Run
from apps.tools.catalog import offered_tools
from apps.tools.registry import AGENT_LOOP_TOOL_NAMES
from tests.factories.rooms import claimed_run, crossed, make_agent, make_member, make_room

SOURCE = "def shout(arguments):\n    return arguments['text'].upper()  # of a model\n"
DEFINITION = {
    "name": "shout",
    "description": "Say it loudly.",
    "input_schema": {"type": "object"},
    "code": SOURCE,
}

_compiled: list[bytes] = []
_watching = False


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event == "compile" and arguments[0] is not None:
        text = arguments[0]
        _compiled.append(text if isinstance(text, bytes) else str(text).encode())


# Python keeps such a hook for the life of the process; it is idle outside these tests.
sys.addaudithook(_watch)


@pytest.fixture
def compiled() -> Iterator[list[bytes]]:
    """Everything that Python compiles meanwhile."""
    global _watching
    _compiled.clear()
    _watching = True
    yield _compiled
    _watching = False


@pytest.fixture
def run(db: None) -> Run:
    member = make_member("mara")
    agent = make_agent(member, slug="scribe")
    return claimed_run(make_room(member, agent), agent, member)


def seen(run: Run, name: str, arguments: Any, step: int) -> dict[str, Any]:
    projection = projection_of(crossed(run, name, arguments, step=step).call)
    assert projection is not None
    return projection


@pytest.mark.parametrize("name", ["DefineTool", "define_tool", "register_spec", "create_tool"])
def test_a_definition_from_a_model_is_refused_and_never_compiled(
    name: str, run: Run, compiled: list[bytes]
) -> None:
    told = seen(run, name, DEFINITION, 1)
    assert (told["outcome"], told["reason"]) == ("refused", "outside_catalog")
    told = seen(run, "shout", {"text": "hello"}, 2)
    assert (told["outcome"], told["reason"]) == ("refused", "outside_catalog")
    assert not any(b"of a model" in text for text in compiled)


def test_the_watch_would_have_seen_it(compiled: list[bytes]) -> None:
    compile(SOURCE, "model", "exec")
    assert any(b"of a model" in text for text in compiled)


@pytest.mark.parametrize("given", [DEFINITION, SOURCE, None])
def test_a_definition_without_a_whole_specification_is_registered_nowhere(given: Any) -> None:
    with pytest.raises(Untyped):
        Registry().register_spec(given, lambda arguments, context: None)


@pytest.mark.parametrize("variable", ["KAIZEN_ALLOW_DYNAMIC_TOOLS", "KYROZEN_ALLOW_DYNAMIC_TOOLS"])
def test_no_environment_variable_brings_them_back(
    variable: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1")
    assert seen(run, "DefineTool", DEFINITION, 1)["reason"] == "outside_catalog"
    assert {tool.spec.name for tool in offered_tools(run)} <= AGENT_LOOP_TOOL_NAMES


def test_an_outdated_label_loads_and_grants_nothing(run: Run) -> None:
    Agent.objects.filter(pk=run.agent_id).update(
        ceiling=["dynamic", "tickets.write", "artifacts.read"]
    )
    run = Run.objects.select_related("agent", "member", "room").get(pk=run.pk)
    assert {tool.spec.name for tool in offered_tools(run)} == {"read_artifact"}
    assert (
        seen(run, "create_artifact", {"title": "a", "kind": "markdown", "body": ""}, 1)["reason"]
        == "permission_denied"
    )


def test_a_new_agent_cannot_be_given_an_outdated_label(db: None) -> None:
    with pytest.raises(Invalid, match="no capability"):
        create_agent(owner=make_member(), slug="old", name="Old", ceiling=["dynamic"])
