"""How a tool enters is declared in closed shapes: a function, a program, or a file tool."""

from typing import Any

import pytest

from apps.domain.entries import (
    CommandEntry,
    Entry,
    FileEntry,
    FileTool,
    HttpEntry,
    NodeEntry,
    Program,
    Protocol,
    PythonEntry,
    parse_entry,
)
from apps.domain.manifests import BadManifest, package_problems, parse_manifest
from apps.domain.problems import Problems
from apps.domain.scoping import ArtifactKind

COMMAND: dict[str, Any] = {
    "protocol": "json",
    "command": "tools/cover",
    "args": ["--all"],
    "execution_paths": ["tools/cover"],
}
TREE = {
    "package.json": b'{"name": "app", "version": "1.0.0"}',
    "tools/cover": b"#!/bin/sh\n",
    "tools/harness": b"#!/bin/sh\n",
    "docs/rules/style.md": b"# Style\n",
    "README.md": b"# App\n",
}


def definition(identity: str = "app.coverage", **changes: Any) -> dict[str, Any]:
    return {
        "id": identity,
        "description": "Say what the tests cover.",
        "version": "1.0.0",
        "input": {"type": "object", "properties": {"query": {"type": "string"}}},
        "output": {"type": "object"},
        "mutating": False,
        **changes,
    }


def manifest(*entries: Any, **changes: Any) -> dict[str, Any]:
    tools = [
        {
            "definition": definition(
                f"app.tool{index}",
                **({"input": {"type": "object"}} if "builtin" in entry else {}),
            ),
            "entry": entry,
        }
        for index, entry in enumerate(entries or (COMMAND,))
    ]
    return {
        "name": "app",
        "version": "1.0.0",
        "ref": "app@1.0.0",
        "format": "python",
        "tools": tools,
        **changes,
    }


def parsed(raw: Any, package_format: str = "python") -> tuple[Entry | None, set[tuple[str, str]]]:
    problems = Problems()
    entry = parse_entry(raw, package_format, "entry", problems)
    return entry, {(one.path, one.rule) for one in problems.found()}


def refused(raw: Any) -> set[tuple[str, str]]:
    with pytest.raises(BadManifest) as caught:
        parse_manifest(raw)
    return {(one.path, one.rule) for one in caught.value.problems}


@pytest.mark.parametrize(
    ("raw", "package_format", "entry"),
    [
        ("a.b:run", "python", PythonEntry("a.b", "run")),
        ("src/tools.mjs#run", "node", NodeEntry("src/tools.mjs", "run")),
        (
            COMMAND,
            "python",
            CommandEntry(Protocol.JSON, Program("tools/cover", ("--all",), ("tools/cover",))),
        ),
        (
            {"protocol": "plain", "command": "rg", "args": ["{query}"], "timeout_ms": 1},
            "node",
            CommandEntry(Protocol.PLAIN, Program("rg", ("{query}",)), timeout_ms=1),
        ),
        ({"builtin": "read"}, "python", FileEntry(FileTool.READ)),
        ({"builtin": "graph", "args": []}, "node", FileEntry(FileTool.GRAPH, ())),
        ({"builtin": "read", "args": ["a.md"]}, "node", FileEntry(FileTool.READ, ("a.md",))),
    ],
    ids=repr,
)
def test_each_kind_of_entry_is_read(raw: Any, package_format: str, entry: Entry) -> None:
    assert parsed(raw, package_format) == (entry, set())
    assert 0 < len(entry.label) <= 200


def test_a_command_that_says_nothing_has_two_minutes() -> None:
    entry, _ = parsed(COMMAND)
    assert isinstance(entry, CommandEntry)
    assert entry.timeout_ms == 120_000


@pytest.mark.parametrize(
    ("raw", "place", "rule"),
    [
        (7, "entry", "type"),
        ([], "entry", "type"),
        (None, "entry", "type"),
        ("a:" + "b" * 200, "entry", "maxLength"),
        ("src/tools.mjs#run", "entry", "pattern"),
        ({}, "entry.protocol", "required"),
        ({**COMMAND, "shell": True}, "entry.shell", "unknown_field"),
        ({**COMMAND, "description": "x"}, "entry.description", "unknown_field"),
        ({**COMMAND, "protocol": "xml"}, "entry.protocol", "enum"),
        ({"protocol": "json", "command": "x"}, "entry.args", "required"),
        ({**COMMAND, "args": "--all"}, "entry.args", "type"),
        ({**COMMAND, "args": ["a\0"]}, "entry.args[0]", "nul"),
        ({**COMMAND, "command": ""}, "entry.command", "minLength"),
        ({**COMMAND, "command": " x"}, "entry.command", "command"),
        ({**COMMAND, "command": "/bin/sh"}, "entry.command", "command"),
        ({**COMMAND, "command": "../x"}, "entry.command", "command"),
        ({**COMMAND, "command": "a//x"}, "entry.command", "command"),
        ({**COMMAND, "timeout_ms": 0}, "entry.timeout_ms", "minimum"),
        ({**COMMAND, "timeout_ms": 2**31}, "entry.timeout_ms", "maximum"),
        ({**COMMAND, "timeout_ms": True}, "entry.timeout_ms", "type"),
        ({**COMMAND, "execution_paths": ["a", "a"]}, "entry.execution_paths", "uniqueItems"),
        (
            {**COMMAND, "execution_paths": [str(n) for n in range(65)]},
            "entry.execution_paths",
            "maxItems",
        ),
        ({**COMMAND, "session": "A b"}, "entry.session", "pattern"),
        ({"builtin": "write"}, "entry.builtin", "enum"),
        ({"builtin": "read", "session": "app"}, "entry.session", "unknown_field"),
        ({"builtin": "grep", "args": ["x"]}, "entry.args", "unsupported"),
        ({"builtin": "view_image", "args": ["x"]}, "entry.args", "unsupported"),
        ({"builtin": "section"}, "entry.args", "required"),
        ({"builtin": "help"}, "entry.args", "required"),
        ({"builtin": "graph"}, "entry.args", "required"),
        ({"builtin": "graph", "args": ["x"]}, "entry.args", "count"),
        ({"builtin": "read", "args": []}, "entry.args", "count"),
        ({"builtin": "section", "args": ["a.md"]}, "entry.args", "count"),
    ],
    ids=repr,
)
def test_a_false_entry_is_refused_by_field_and_rule(raw: Any, place: str, rule: str) -> None:
    entry, problems = parsed(raw)
    assert (place, rule) in problems
    assert entry is None or rule in ("nul", "command")


def test_tools_of_an_artifact_are_published_under_its_name_and_theirs() -> None:
    artifacts = [{"id": "spec", "kind": "folder", "path": "docs/rules", "name": "rules"}]
    read = parse_manifest(
        manifest(COMMAND, {"builtin": "read", "artifact": "spec"}, artifacts=artifacts)
    )
    assert [tool.published for tool in read.tools] == ["tool0_app", "tool1_spec"]
    assert [tool.tool_name for tool in read.tools] == ["pkg_tool0_app", "pkg_tool1_spec"]
    scope = read.artifact("app")
    assert scope is not None
    child = scope.child("rules")
    assert child is not None
    assert (child.id, child.kind, child.path) == ("spec", ArtifactKind.FOLDER, "docs/rules")


def test_two_names_that_come_to_the_same_are_refused() -> None:
    raw = manifest(
        {"builtin": "read", "artifact": "b_c"},
        {"builtin": "read", "artifact": "c"},
        artifacts=[
            {"id": "b_c", "kind": "folder", "path": "docs"},
            {"id": "c", "kind": "folder", "path": "tools"},
        ],
    )
    raw["tools"][0]["definition"]["id"] = "app.a"
    raw["tools"][1]["definition"]["id"] = "app.a_b"
    assert refused(raw) == {("tools[1].definition.id", "name_clash")}


def test_recorded_names_of_sessions_are_unique() -> None:
    session = {"start": {"command": "a", "args": []}, "stop": {"command": "b", "args": []}}
    raw = manifest(
        artifacts=[
            {"id": "b_c", "kind": "folder", "path": "docs"},
            {"id": "c", "kind": "folder", "path": "tools"},
        ],
        sessions={"a": {**session, "artifact": "b_c"}, "a_b": {**session, "artifact": "c"}},
    )
    assert refused(raw) == {("sessions.a_b", "name_clash")}


SESSION = {
    "start": {"command": "tools/harness", "args": ["start"], "execution_paths": ["tools/harness"]},
    "stop": {"command": "tools/harness", "args": ["stop"]},
}


def test_a_session_and_a_tool_for_people_stand_beside_the_tools() -> None:
    raw = manifest(
        {**COMMAND, "session": "app"},
        sessions={"app": SESSION},
        human_tools={"inspect": {"description": "Look.", "command": "ls", "args": []}},
    )
    read = parse_manifest(raw)
    assert [tool.tool_name for tool in read.tools] == ["pkg_tool0_app"]
    session = read.session("app")
    assert session is not None
    assert session.start.execution_paths == ("tools/harness",)
    assert [one.name for one in read.human_tools] == ["inspect"]
    assert read.as_dict() == raw
    assert not read.tools[0].specification().parallel_safe


@pytest.mark.parametrize(
    ("changes", "place", "rule"),
    [
        ({"sessions": {"app": {"start": SESSION["start"]}}}, "sessions.app.stop", "required"),
        (
            {"sessions": {"app": {**SESSION, "start": {**SESSION["start"], "timeout_ms": 5}}}},
            "sessions.app.start.timeout_ms",
            "unknown_field",
        ),
        (
            {"sessions": {"app": {**SESSION, "protocol": "json"}}},
            "sessions.app.protocol",
            "unknown_field",
        ),
        (
            {
                "human_tools": {
                    "x": {"description": "x", "command": "x", "args": [], "session": "app"}
                }
            },
            "human_tools.x.session",
            "unknown_field",
        ),
        (
            {"human_tools": {"x": {"command": "x", "args": []}}},
            "human_tools.x.description",
            "required",
        ),
        ({"artifacts": [{"id": "a", "kind": "tree", "path": "x"}]}, "artifacts[0].kind", "enum"),
        (
            {"artifacts": [{"id": "a", "kind": "file", "path": "../x"}]},
            "artifacts[0].path",
            "traversal",
        ),
        (
            {"artifacts": [{"id": "app", "kind": "file", "path": "x"}]},
            "artifacts[0].id",
            "name_clash",
        ),
        (
            {"artifacts": [{"id": "a", "kind": "file", "path": "x", "parent": "b"}]},
            "artifacts[0].parent",
            "unknown",
        ),
        (
            {
                "artifacts": [
                    {"id": "a", "kind": "file", "path": "x"},
                    {"id": "b", "kind": "file", "path": "y", "parent": "a"},
                ]
            },
            "artifacts[0].kind",
            "incoherent",
        ),
    ],
    ids=repr,
)
def test_what_stands_beside_is_closed_too(changes: dict[str, Any], place: str, rule: str) -> None:
    assert (place, rule) in refused(manifest(**changes))


@pytest.mark.parametrize(
    ("entry", "place", "rule"),
    [
        ({**COMMAND, "session": "other"}, "tools[0].entry.session", "unknown"),
        ({**COMMAND, "artifact": "other"}, "tools[0].entry.artifact", "unknown"),
        ({**COMMAND, "args": ["{other}/x"]}, "tools[0].entry.args[0]", "template"),
        ({**COMMAND, "args": ["{app}/../x"]}, "tools[0].entry.args[0]", "template"),
        ({**COMMAND, "args": ["{query}"]}, "tools[0].entry.args[0]", "template"),
        (
            {**COMMAND, "protocol": "plain", "args": ["{app}"]},
            "tools[0].entry.args[0]",
            "template",
        ),
        ({**COMMAND, "protocol": "plain", "args": ["{"]}, "tools[0].entry.args[0]", "template"),
    ],
    ids=repr,
)
def test_an_entry_names_only_what_its_tool_may_look_at(entry: Any, place: str, rule: str) -> None:
    assert refused(manifest(entry)) == {(place, rule)}


def test_tools_of_one_session_have_one_network() -> None:
    raw = manifest(
        {**COMMAND, "session": "app"}, {**COMMAND, "session": "app"}, sessions={"app": SESSION}
    )
    open_to = {"kind": "allowlist", "hosts": ["example.org"]}
    for tool in raw["tools"]:
        tool["definition"] |= {"network": open_to, "effects": [{"kind": "network"}]}
    assert parse_manifest(raw).sessions
    del raw["tools"][1]["definition"]["network"]
    assert ("tools[1].definition.network", "incoherent") in refused(raw)


def test_a_file_tool_says_that_it_changes_nothing() -> None:
    raw = manifest({"builtin": "read"})
    del raw["tools"][0]["definition"]["mutating"]
    assert refused(raw) == {("tools[0].definition.mutating", "incoherent")}


def test_a_description_may_name_its_artifact_and_nothing_else() -> None:
    raw = manifest({"builtin": "read"})
    raw["tools"][0]["definition"]["description"] = "Read files of {artifactName}."
    assert parse_manifest(raw).tools[0].specification().description == "Read files of app."
    raw["tools"][0]["definition"]["description"] = "Read files of {artifactId}."
    assert refused(raw) == {("tools[0].definition.description", "template")}


def test_a_declared_request_has_no_entry() -> None:
    raw = manifest()
    raw["tools"][0]["definition"]["spec"] = {
        "kind": "http",
        "method": "GET",
        "urlTemplate": "https://x.test",
    }
    assert ("tools[0].entry", "incoherent") in refused(raw)
    assert HttpEntry().label


@pytest.mark.parametrize(
    ("raw", "place"),
    [
        (manifest({**COMMAND, "command": "tools/none"}), "tools[0].entry.command"),
        (
            manifest({**COMMAND, "execution_paths": ["tools", "gone"]}),
            "tools[0].entry.execution_paths[1]",
        ),
        (
            manifest(artifacts=[{"id": "a", "kind": "file", "path": "docs"}]),
            "artifacts.a",
        ),
        (
            manifest(artifacts=[{"id": "a", "kind": "folder", "path": "README.md"}]),
            "artifacts.a",
        ),
        (
            manifest(sessions={"app": {**SESSION, "stop": {"command": "tools/none", "args": []}}}),
            "sessions.app.stop.command",
        ),
    ],
    ids=lambda value: repr(value)[-60:],
)
def test_what_an_entry_needs_has_to_lie_in_the_tree(raw: Any, place: str) -> None:
    found = package_problems(parse_manifest(raw), TREE)
    assert [(one.path, one.rule) for one in found] == [(place, "entry_missing")]


def test_a_whole_package_of_programs_agrees_with_its_tree() -> None:
    raw = manifest(
        {**COMMAND, "session": "app"},
        {"builtin": "help", "args": ["tools/cover"]},
        sessions={"app": SESSION},
        artifacts=[{"id": "spec", "kind": "folder", "path": "docs/rules", "name": "rules"}],
    )
    assert package_problems(parse_manifest(raw), TREE) == []


def test_a_child_does_not_hide_a_file_of_its_parent() -> None:
    raw = manifest(
        artifacts=[{"id": "spec", "kind": "folder", "path": "docs/rules", "name": "tools"}]
    )
    found = package_problems(parse_manifest(raw), TREE)
    assert [(one.path, one.rule) for one in found] == [("artifacts.app", "name_clash")]


@pytest.mark.parametrize(
    ("entry", "seconds"),
    [
        # Code has the runner's one deadline, of which no package says anything.
        ("app:run", 240),
        (COMMAND, 120),
        ({**COMMAND, "timeout_ms": 5_000}, 5),
        ({**COMMAND, "timeout_ms": 2**31 - 1}, 240),
        ({"builtin": "read"}, 30),
    ],
    ids=repr,
)
def test_each_kind_of_tool_has_a_time_of_its_own(entry: Any, seconds: int) -> None:
    assert parse_manifest(manifest(entry)).tools[0].specification().timeout_s == seconds
