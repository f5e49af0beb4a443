"""A package asks for a runtime out of a closed set, where one can be asked for at all."""

from __future__ import annotations

from typing import Any

import pytest

from apps.domain.manifests import BadManifest, parse_manifest
from apps.domain.packagetools import PackageTool
from tests.factories import packages as made

PROGRAM = {"protocol": "json", "command": "tools/run", "args": []}


def declared(entry: Any, runtime: str | None, **changes: Any) -> PackageTool:
    raw = made.manifest("weather", "1.0.0", **changes)
    raw["tools"][0]["entry"] = entry
    if runtime is not None:
        raw["tools"][0]["runtime"] = runtime
    return parse_manifest(raw).tools[0]


@pytest.mark.parametrize("entry", ["weather:convert", PROGRAM])
@pytest.mark.parametrize(
    ("runtime", "bound"),
    [(None, ()), ("python", ()), ("office", ("office",)), ("node", ("node",))],
)
def test_functions_of_python_and_programs_ask_for_one(
    entry: Any, runtime: str | None, bound: tuple[str, ...]
) -> None:
    assert declared(entry, runtime).runtimes == bound


def test_a_program_that_is_node_has_node_whatever_it_asks_for() -> None:
    node = {**PROGRAM, "command": "node"}
    assert declared(node, None).runtimes == ("node",)
    assert declared(node, "office").runtimes == ("node", "office")


@pytest.mark.parametrize("runtime", ["pi", "ruby", "", 3, None, ["office"]])
def test_nothing_outside_the_set_is_taken(runtime: Any) -> None:
    raw = made.manifest()
    raw["tools"][0]["runtime"] = runtime
    with pytest.raises(BadManifest, match="runtime"):
        parse_manifest(raw)


def test_a_tool_that_has_its_own_cannot_ask() -> None:
    with pytest.raises(BadManifest, match="Only functions of Python and programs"):
        declared({"builtin": "list"}, "python")
    with pytest.raises(BadManifest, match="Only functions of Python and programs"):
        declared("weather.mjs#convert", "node", format="node")


def test_tools_of_one_session_share_its_runtime() -> None:
    program = {"command": "tools/run", "args": []}
    tools = [made.definition("weather.a"), made.definition("weather.b")]
    raw = made.manifest("weather", "1.0.0", *tools)
    raw["sessions"] = {"app": {"start": program, "stop": program}}
    for tool in raw["tools"]:
        tool["entry"] = {**PROGRAM, "session": "app"}
        tool["runtime"] = "office"
    assert all(tool.runtimes == ("office",) for tool in parse_manifest(raw).tools)
    del raw["tools"][1]["runtime"]
    with pytest.raises(BadManifest, match="same runtime"):
        parse_manifest(raw)
