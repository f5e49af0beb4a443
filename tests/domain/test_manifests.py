import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.domain.entries import PythonEntry
from apps.domain.manifests import (
    BadManifest,
    package_problems,
    parse_manifest,
    tool_name_of,
)
from apps.domain.policy.modes import may_ask
from apps.domain.tooling import Capability, CollaborationClass, Effect, Risk

DEFINITION: dict[str, Any] = {
    "id": "words.count",
    "description": "Counts the words of a text.",
    "version": "1.0.0",
    "input": {
        "type": "object",
        "properties": {"text": {"type": "string", "maxLength": 5000}},
        "required": ["text"],
        "additionalProperties": False,
    },
    "output": {"type": "object", "properties": {"words": {"type": "integer"}}},
}
MANIFEST: dict[str, Any] = {
    "name": "word-tools",
    "version": "1.2.0",
    "ref": "word-tools@1.2.0",
    "format": "python",
    "description": "Tools for words.",
    "tools": [
        {
            "definition": DEFINITION,
            "collaboration_class": "actor_bound_write",
            "entry": "words.count:count",
        }
    ],
    "metadata": {"licence": "Apache-2.0"},
}


def manifest(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(MANIFEST), **changes}


def with_definition(collaboration: str = "actor_bound_write", **changes: Any) -> dict[str, Any]:
    raw = manifest()
    raw["tools"][0]["definition"].update(changes)
    raw["tools"][0]["collaboration_class"] = collaboration
    return raw


def without(raw: dict[str, Any], *path: Any) -> dict[str, Any]:
    raw = copy.deepcopy(raw)
    inner: Any = raw
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return raw


def found_in(raw: Any) -> set[tuple[str, str]]:
    with pytest.raises(BadManifest) as caught:
        parse_manifest(raw)
    assert all(len(str(problem)) < 700 for problem in caught.value.problems)
    return {(problem.path, problem.rule) for problem in caught.value.problems}


def test_a_whole_manifest_is_read() -> None:
    read = parse_manifest(MANIFEST)
    assert (read.name, read.version, read.ref, read.format) == (
        "word-tools",
        "1.2.0",
        "word-tools@1.2.0",
        "python",
    )
    assert read.as_dict() == MANIFEST
    (tool,) = read.tools
    assert (tool.id, tool.tool_name, tool.entry) == (
        "words.count",
        "pkg_words_count",
        PythonEntry("words.count", "count"),
    )
    assert tool.definition == DEFINITION
    assert read.tool("pkg_words_count") is tool
    assert read.tool("words.count") is None


def test_a_silent_definition_is_a_mutating_tool_that_asks() -> None:
    spec = parse_manifest(MANIFEST).tools[0].specification()
    assert spec.effect is Effect.WRITE
    assert spec.capability is Capability.PACKAGES_CALL
    assert spec.later
    assert spec.risk is Risk.MEDIUM
    assert spec.source == "package:word-tools@1.2.0"
    assert spec.title == "Count"
    assert not spec.parallel_safe
    assert may_ask(spec)
    assert spec.argument_errors({"text": "a"}) == []
    assert spec.argument_errors({})[0].rule == "required"


def test_a_reading_tool_passes() -> None:
    raw = with_definition(
        "actor_bound_read",
        mutating=False,
        effects=[{"kind": "reads", "resource": "memory:x", "notes": "n"}, {"kind": "network"}],
        limits={"memMB": 64, "cpuMs": 500},
        network={"kind": "none"},
        sandbox="strict",
        resultIsOutsideData=True,
        transport="auto",
        metadata={"author": "a"},
        pauses=False,
        needsApprovalWhenUnattended=False,
        needs=[{"name": "blob", "optional": True}],
        needsSpec={"env": {}, "capabilities": []},
    )
    tool = parse_manifest(raw).tools[0]
    spec = tool.specification()
    assert spec.effect is Effect.READ
    assert spec.parallel_safe
    assert spec.outside_data
    assert not may_ask(spec)
    assert tool.limits == {"memMB": 64, "cpuMs": 500}


def test_a_tool_that_sends_sensitive_data_out_is_sensitive() -> None:
    raw = with_definition(effects=[{"kind": "sensitive-data-egress"}])
    spec = parse_manifest(raw).tools[0].specification()
    assert (spec.effect, spec.risk) == (Effect.SENSITIVE, Risk.HIGH)


def test_a_tool_that_says_nothing_about_rooms_stays_out_of_them() -> None:
    raw = without(MANIFEST, "tools", 0, "collaboration_class")
    assert parse_manifest(raw).tools[0].collaboration is CollaborationClass.UNKNOWN


@pytest.mark.parametrize(
    ("raw", "path", "rule"),
    [
        ([], "", "type"),
        (None, "", "type"),
        ({"a": float("nan")}, "", "json"),
        (manifest(metadata={"x": "y" * 600_000}), "", "size"),
        (manifest(metadata={"x": "y" * 20_000}), "metadata", "size"),
        (manifest(metadata=[]), "metadata", "type"),
        (without(MANIFEST, "name"), "name", "required"),
        (without(MANIFEST, "tools"), "tools", "required"),
        (without(MANIFEST, "format"), "format", "required"),
        (manifest(extra=1), "extra", "unknown_field"),
        (manifest(name="Word Tools"), "name", "pattern"),
        (manifest(name="../x"), "name", "pattern"),
        (manifest(version="1.2"), "version", "pattern"),
        (manifest(version="^1.2.0"), "version", "pattern"),
        (manifest(version="1.2.0\n"), "version", "pattern"),
        (manifest(version="01.2.0"), "version", "pattern"),
        (manifest(ref="word-tools@1.2.1"), "ref", "ref"),
        (manifest(format="wasm"), "format", "unsupported"),
        (manifest(posture="strict"), "posture", "unsupported"),
        (manifest(skills=[{"name": "x"}]), "skills", "unsupported"),
        (manifest(tools=[]), "tools", "minItems"),
        (manifest(tools={}), "tools", "type"),
        (manifest(tools=[1]), "tools[0]", "type"),
        (manifest(tools=[{}]), "tools[0].definition", "required"),
        (manifest(tools=MANIFEST["tools"] * 2), "tools[1].definition.id", "name_clash"),
        (with_definition("audience_read"), "tools[0].collaboration_class", "enum"),
        (with_definition("exact_room"), "tools[0].collaboration_class", "enum"),
        (with_definition("actor_bound_read"), "tools[0].collaboration_class", "incoherent"),
        (
            with_definition("actor_private_read", mutating=True),
            "tools[0].collaboration_class",
            "incoherent",
        ),
        (with_definition(mutating=False), "tools[0].collaboration_class", "incoherent"),
        (
            with_definition("unknown", mutating=False, effects=[{"kind": "writes"}]),
            "tools[0].definition.effects[0].kind",
            "incoherent",
        ),
        (
            with_definition(
                "unknown", mutating=False, effects=[{"kind": "writes", "resource": "derived:x"}]
            ),
            "tools[0].definition.effects[0].kind",
            "incoherent",
        ),
        (without(MANIFEST, "tools", 0, "entry"), "tools[0].entry", "required"),
    ],
    ids=lambda value: repr(value)[-40:],
)
def test_a_false_manifest_is_refused_by_field_and_rule(raw: Any, path: str, rule: str) -> None:
    assert (path, rule) in found_in(raw)


@pytest.mark.parametrize(
    "entry", ["words", "words:", ":count", "words/count:count", "../x:y", "a:b:c", "a-b:c", "a.:b"]
)
def test_an_entry_is_a_module_and_a_function(entry: str) -> None:
    raw = manifest()
    raw["tools"][0]["entry"] = entry
    assert found_in(raw) == {("tools[0].entry", "pattern")}


BASE = "tools[0].definition"
HTTP = {"kind": "http", "method": "GET", "urlTemplate": "https://x.test"}


@pytest.mark.parametrize(
    ("changes", "path", "rule"),
    [
        ({"id": "words count"}, "id", "pattern"),
        ({"id": ".count"}, "id", "pattern"),
        ({"id": "x" * 129}, "id", "maxLength"),
        ({"description": ""}, "description", "minLength"),
        ({"description": "  "}, "description", "specification"),
        ({"description": "😀" * 2500}, "description", "specification"),
        ({"version": "1"}, "version", "pattern"),
        ({"version": 1}, "version", "type"),
        ({"input": True}, "input", "type"),
        ({"input": {}}, "input.type", "root_type"),
        ({"input": {"type": "objekt"}}, "input.type", "meta_schema"),
        (
            {"input": {"type": "object", "properties": {"a": {"type": 5}}}},
            "input.properties.a.type",
            "meta_schema",
        ),
        (
            {"input": {"type": "object", "allOf": [{"$ref": "http://x.test/"}]}},
            "input.allOf[0].$ref",
            "remote_reference",
        ),
        ({"input": {"type": "object", "maxlenght": 1}}, "input.maxlenght", "unenforceable"),
        ({"output": {"format": "wonderful"}}, "output.format", "unenforceable"),
        ({"output": "object"}, "output", "type"),
        ({"colour": "red"}, "colour", "unknown_field"),
        ({"mutating": "yes"}, "mutating", "type"),
        ({"effects": [{"kind": "teleports"}]}, "effects[0].kind", "enum"),
        ({"effects": [{"resource": "x"}]}, "effects[0].kind", "required"),
        ({"effects": [{"kind": "reads", "x": 1}]}, "effects[0].x", "unknown_field"),
        ({"effects": {}}, "effects", "type"),
        ({"limits": {"memMB": 64}}, "limits.cpuMs", "required"),
        ({"limits": {"memMB": 0, "cpuMs": 1}}, "limits.memMB", "minimum"),
        ({"limits": {"memMB": "64", "cpuMs": 1}}, "limits.memMB", "type"),
        ({"network": {"kind": "some"}}, "network.kind", "enum"),
        ({"network": {"kind": "allowlist"}}, "network.hosts", "required"),
        ({"network": "none"}, "network", "type"),
        ({"sandbox": "loose"}, "sandbox", "enum"),
        ({"resultIsOutsideData": 1}, "resultIsOutsideData", "type"),
        ({"metadata": []}, "metadata", "type"),
        ({"metadata": {"x": "y" * 20_000}}, "metadata", "size"),
        ({"transport": "carrier"}, "transport", "enum"),
        ({"needs": [{}]}, "needs[0].name", "required"),
        ({"needs": "tenant"}, "needs", "type"),
        ({"needsSpec": {"secret": {}}}, "needsSpec.secret", "unknown_field"),
        (
            {"needsSpec": {"connections": {"mail": {"app": "google", "permissions": []}}}},
            "needsSpec.connections.mail.as",
            "required",
        ),
        ({"codeArtifactRef": {"kind": "zip", "modulePath": "x"}}, "codeArtifactRef.kind", "enum"),
        (
            {"codeArtifactRef": {"kind": "oci", "modulePath": "x"}},
            "codeArtifactRef.imageRef",
            "required",
        ),
        ({"spec": {"kind": "http", "method": "GET"}}, "spec.urlTemplate", "required"),
        (
            {
                "spec": {
                    "kind": "http",
                    "method": "FETCH",
                    "urlTemplate": "https://x.test",
                    "authorization": {"kind": "bearer"},
                }
            },
            "spec.authorization.secretRef",
            "required",
        ),
        ({"needs": [{"name": "tenant"}]}, "needs[0]", "unsupported"),
        ({"needs": [{"name": "a", "optional": True}, {"name": "b"}]}, "needs[1]", "unsupported"),
        ({"needsSpec": {"env": {"A": {}}}}, "needsSpec.env", "unsupported"),
        ({"needsSpec": {"secrets": {"A": {}}}}, "needsSpec.secrets", "unsupported"),
        ({"needsSpec": {"config": {"A": {}}}}, "needsSpec.config", "unsupported"),
        ({"needsSpec": {"capabilities": ["x"]}}, "needsSpec.capabilities", "unsupported"),
        ({"needsSpec": {"bindings": ["x"]}}, "needsSpec.bindings", "unsupported"),
        (
            {
                "needsSpec": {
                    "connections": {"m": {"app": "a", "permissions": ["p"], "as": "person"}}
                }
            },
            "needsSpec.connections",
            "unsupported",
        ),
        ({"mcpEndpoint": "mcp+http://x"}, "mcpEndpoint", "unsupported"),
        ({"mcpEndpoint": "http://x"}, "mcpEndpoint", "pattern"),
        ({"transport": "mcp"}, "mcpEndpoint", "incoherent"),
        ({"transport": "mcp", "pauses": True}, "pauses", "incoherent"),
        ({"transport": "native"}, "transport", "unsupported"),
        (
            {"codeArtifactRef": {"kind": "filesystem", "modulePath": "/x"}},
            "codeArtifactRef",
            "unsupported",
        ),
        (
            {"codeArtifactRef": {"kind": "filesystem", "modulePath": "x"}},
            "codeArtifactRef.modulePath",
            "pattern",
        ),
        (
            {"codeArtifactRef": {"kind": "filesystem", "modulePath": "/x", "imageRef": "x"}},
            "codeArtifactRef.imageRef",
            "falseSchema",
        ),
        ({"spec": HTTP, "pauses": True}, "pauses", "incoherent"),
        (
            {"spec": {**HTTP, "successStatus": {"min": 99, "max": 200}}},
            "spec.successStatus.min",
            "minimum",
        ),
        (
            {"spec": {**HTTP, "successStatus": {"min": 300, "max": 200}}},
            "spec.successStatus",
            "incoherent",
        ),
        (
            {"spec": {**HTTP, "authorization": {"kind": "connection", "connection": "mail"}}},
            "spec.authorization.connection",
            "incoherent",
        ),
        ({"network": {"kind": "none", "hosts": ["x"]}}, "network.hosts", "falseSchema"),
        ({"network": {"kind": "allowlist", "hosts": []}}, "network.hosts", "minItems"),
        ({"network": {"kind": "allowlist", "hosts": ["x"]}}, "network.hosts", "incoherent"),
        ({"network": {"kind": "allowlist", "hosts": ["10.0.0.1"]}}, "network.hosts", "incoherent"),
        ({"sandbox": "none"}, "sandbox", "unsupported"),
        ({"transport": "mcp"}, "transport", "unsupported"),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_every_field_of_a_definition_is_typed_or_refused_by_name(
    changes: dict[str, Any], path: str, rule: str
) -> None:
    assert (f"{BASE}.{path}", rule) in found_in(with_definition(**changes))


def test_a_tool_that_asks_in_unattended_runs_carries_that_along() -> None:
    raw = with_definition(needsApprovalWhenUnattended=True)
    assert parse_manifest(raw).tools[0].specification().needs_approval_when_unattended
    assert not parse_manifest(MANIFEST).tools[0].specification().needs_approval_when_unattended


def test_a_tool_stands_in_the_surface_of_its_package() -> None:
    spec = parse_manifest(MANIFEST).tools[0].specification()
    assert (spec.family.value, spec.surface) == ("packages", "word-tools")
    assert (spec.source, spec.version) == ("package:word-tools@1.2.0", "1.0.0")


@pytest.mark.parametrize("field", ["id", "description", "version", "input", "output"])
def test_five_fields_of_a_definition_are_required(field: str) -> None:
    raw = without(MANIFEST, "tools", 0, "definition", field)
    assert found_in(raw) == {(f"{BASE}.{field}", "required")}


def test_an_unsupported_field_says_why() -> None:
    with pytest.raises(BadManifest, match="always runs confined"):
        parse_manifest(with_definition(sandbox="none"))


def test_the_contract_digest_covers_every_field_but_not_their_order() -> None:
    first = parse_manifest(MANIFEST)
    assert first.contract_digest == parse_manifest(dict(reversed(MANIFEST.items()))).contract_digest
    for changed in (
        manifest(description="Other."),
        manifest(metadata={}),
        with_definition(description="Counts."),
        with_definition(limits={"memMB": 1, "cpuMs": 1}),
    ):
        assert parse_manifest(changed).contract_digest != first.contract_digest


def test_a_manifest_shares_nothing_with_what_it_was_read_from() -> None:
    raw = manifest()
    read = parse_manifest(raw)
    raw["tools"][0]["definition"]["description"] = "Changed."
    read.tools[0].definition["description"] = "Changed."
    assert read.as_dict() == MANIFEST


@pytest.mark.parametrize(
    ("tool_id", "name"),
    [("count", "pkg_count"), ("a.b-c_d", "pkg_a_b-c_d"), ("a.b.c", "pkg_a_b_c")],
)
def test_a_name_for_models_follows_from_the_id(tool_id: str, name: str) -> None:
    assert tool_name_of(tool_id) == name


def test_long_ids_stay_apart() -> None:
    first, second = tool_name_of("x" * 127 + "a"), tool_name_of("x" * 127 + "b")
    assert first != second
    assert len(first) == 64


def test_two_ids_that_become_one_name_clash() -> None:
    raw = manifest()
    raw["tools"].append(copy.deepcopy(raw["tools"][0]))
    raw["tools"][1]["definition"]["id"] = "words_count"
    assert found_in(raw) == {("tools[1].definition.id", "name_clash")}


TREE = {
    "package.json": b'{"name": "word-tools", "version": "1.2.0"}',
    "words/__init__.py": b"",
    "words/count.py": b"",
}


def test_manifest_and_tree_agree() -> None:
    read = parse_manifest(MANIFEST)
    assert package_problems(read, TREE) == []
    missing = {path: raw for path, raw in TREE.items() if path != "words/count.py"}
    assert [(p.path, p.rule) for p in package_problems(read, missing)] == [
        ("tools[0].entry", "entry_missing")
    ]
    other = {**TREE, "package.json": b'{"name": "x", "version": "1.2.0"}'}
    assert [p.rule for p in package_problems(read, other)] == ["disagrees"]


texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12
)
definitions = st.fixed_dictionaries(
    {
        "id": st.from_regex(r"[a-z]{1,5}(\.[a-z]{1,4}(-[a-z]{1,3})?)?", fullmatch=True),
        "description": texts.filter(lambda text: text.strip() != ""),
        "version": st.from_regex(r"[0-9]{1}\.[1-9][0-9]?\.[0-9]{1}", fullmatch=True),
        "input": st.just(DEFINITION["input"]),
        "output": st.sampled_from([{}, {"type": "integer"}, DEFINITION["output"]]),
    },
    optional={
        "needs": st.lists(st.fixed_dictionaries({"name": texts, "optional": st.just(True)})).map(
            lambda needs: needs[:3]
        ),
        "effects": st.lists(
            st.fixed_dictionaries(
                {"kind": st.sampled_from(["reads", "writes", "deletes", "network"])},
                optional={"resource": texts, "notes": texts},
            ),
            max_size=3,
        ),
        "transport": st.just("auto"),
        "metadata": st.dictionaries(texts, texts | st.integers(), max_size=3),
        "sandbox": st.sampled_from(["context-isolated", "strict"]),
        "mutating": st.just(True),
        "needsApprovalWhenUnattended": st.booleans(),
        "pauses": st.just(False),
        "resultIsOutsideData": st.booleans(),
        "limits": st.fixed_dictionaries(
            {"memMB": st.integers(1, 9_000), "cpuMs": st.integers(1, 90_000)}
        ),
        "network": st.just({"kind": "none"}),
        "needsSpec": st.sampled_from([{}, {"env": {}}, {"bindings": []}]),
    },
)


@given(definitions)
@settings(deadline=None, max_examples=150)
def test_what_is_imported_is_exported_again_and_every_word_of_it_is_kept(
    definition: dict[str, Any],
) -> None:
    raw = manifest(tools=[{"definition": definition, "entry": "words.count:count"}])
    read = parse_manifest(raw)
    again = parse_manifest(json.loads(read.text))
    assert read.as_dict() == raw == again.as_dict()
    assert again.contract_digest == read.contract_digest
    spec = again.tools[0].specification()
    assert spec.input_schema == definition["input"]
    assert spec.output_schema == definition["output"]
    assert spec.description == definition["description"]
    assert spec.version == definition["version"]
    assert spec.outside_data == definition.get("resultIsOutsideData", False)
    unattended = definition.get("needsApprovalWhenUnattended", False)
    assert spec.needs_approval_when_unattended == unattended
    assert [(e.kind.value, e.resource) for e in spec.side_effects] == [
        (effect["kind"], effect.get("resource")) for effect in definition.get("effects", [])
    ]
    assert again.tools[0].limits == definition.get("limits")


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.data())
@settings(deadline=None, max_examples=300)
def test_any_value_in_any_place_is_read_or_refused(data: st.DataObject) -> None:
    raw = with_definition(
        effects=[{"kind": "writes"}],
        limits={"memMB": 1, "cpuMs": 1},
        network={"kind": "none"},
        needsSpec={},
    )
    inner: Any = raw
    while True:
        key = data.draw(st.sampled_from(sorted(inner)) if isinstance(inner, dict) else st.just(0))
        if not isinstance(inner[key], dict | list) or not inner[key] or data.draw(st.booleans()):
            break
        inner = inner[key]
    inner[key] = data.draw(plain)
    # Whatever else were raised would fail the test.
    with contextlib.suppress(BadManifest):
        assert parse_manifest(raw).as_dict() == raw
