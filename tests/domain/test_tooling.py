import json
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from apps.domain.schemas import DRAFT_7
from apps.domain.tooling import (
    BadSpecification,
    Capability,
    CollaborationClass,
    DeclaredEffect,
    Descriptor,
    Effect,
    EffectDomain,
    EffectKind,
    Family,
    Guard,
    Pauses,
    Provenance,
    RepeatPolicy,
    Risk,
    Specification,
    catalog_digest,
    descriptor_digest,
    project_schema,
    specify,
)

INPUT = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 200},
        "body": {"type": "string", "maxLength": 100_000},
        "count": {"type": "integer"},
    },
    "required": ["title"],
    "additionalProperties": False,
}


def make(**changes: Any) -> Specification:
    declaration: dict[str, Any] = {
        "name": "create_note",
        "title": "Create a note",
        "description": "Makes a note.",
        "input_schema": INPUT,
        "effect": Effect.WRITE,
        "capability": Capability.ARTIFACTS_WRITE,
        "guard": Guard.MEMBER_STORE,
        "effect_domain": EffectDomain.OURS,
        "collaboration": CollaborationClass.ACTOR_BOUND_WRITE,
    }
    return specify(**{**declaration, **changes})


READ: dict[str, Any] = {
    "effect": Effect.READ,
    "capability": Capability.ARTIFACTS_READ,
    "collaboration": CollaborationClass.ACTOR_BOUND_READ,
}
OUTSIDE: dict[str, Any] = {
    "guard": Guard.EXTERNAL,
    "effect_domain": EffectDomain.EXTERNAL,
    "later": True,
}
WRITES = (DeclaredEffect(EffectKind.WRITES, "notes"),)
CHILD = (DeclaredEffect(EffectKind.SPAWNS_RUN, "turn:child"),)
DERIVED = (DeclaredEffect(EffectKind.WRITES, "derived:index"),)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"previewed_argument": "body"},
        {"side_effects": WRITES, "repeat": RepeatPolicy.REDUNDANT},
        {**READ, "parallel_safe": True, "side_effects": (DeclaredEffect(EffectKind.READS),)},
        {**READ, "side_effects": DERIVED},
        {**READ, "side_effects": CHILD},
        {"timeout_s": 240, "argument_cap": 8 * 1024 * 1024, "aliases": ("note", "add_note")},
        {"description": "x" * 4000},
        {"guard": Guard.EXTERNAL, "effect_domain": EffectDomain.EXTERNAL, "later": True},
        {"guard": Guard.ISOLATED, "effect_domain": EffectDomain.EXTERNAL, "later": True},
        {"output_schema": {"type": "string"}, "risk": "high"},
        {"surface": "notes", "intent_hints": ("note this down",), "retry_safe": True},
        {"needs_approval_when_unattended": True, "outside_data": True},
        {**OUTSIDE, "uses_connection": True},
        {**OUTSIDE, "pauses": Pauses()},
        {**OUTSIDE, "pauses": Pauses(default_s=60, most_s=3600)},
    ],
)
def test_an_honest_declaration_is_accepted(changes: dict[str, Any]) -> None:
    assert make(**changes).name == "create_note"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "create note"}, "name"),
        ({"name": "n" * 65}, "name"),
        ({"name": ""}, "name"),
        ({"name": "create_note\n"}, "name"),
        ({"title": " "}, "title"),
        ({"title": "a\nb"}, "title"),
        ({"description": " \n"}, "description"),
        ({"description": "x" * 4001}, "description"),
        ({"description": "😀" * 2001}, "description"),
        ({"source": ""}, "source"),
        ({"version": ""}, "version"),
        ({"aliases": ("create_note",)}, "aliases"),
        ({"aliases": ("a", "a")}, "aliases"),
        ({"aliases": ("a b",)}, "aliases"),
        ({"effect": "delete"}, "effect"),
        ({"capability": "artifacts.everything"}, "capability"),
        ({"guard": "none"}, "guard"),
        ({"risk": "none"}, "risk"),
        ({"input_schema": {}}, "input_schema/type"),
        ({"input_schema": {"type": "object", "maxlenght": 1}}, "input_schema/maxlenght"),
        ({"output_schema": {"$ref": "http://x.test/"}}, "output_schema/$ref"),
        ({"argument_cap": 0}, "argument_cap"),
        ({"argument_cap": 8 * 1024 * 1024 + 1}, "argument_cap"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": 241}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"previewed_argument": "count"}, "previewed_argument"),
        ({"previewed_argument": "none"}, "previewed_argument"),
        ({"parallel_safe": True}, "parallel_safe"),
        ({**READ, "side_effects": WRITES}, "effect"),
        ({**READ, "side_effects": (DeclaredEffect(EffectKind.DELETES, "derived:x"),)}, "effect"),
        ({**READ, "side_effects": DERIVED, "parallel_safe": True}, "parallel_safe"),
        ({**READ, "side_effects": CHILD, "parallel_safe": True}, "parallel_safe"),
        ({**READ, "side_effects": (DeclaredEffect(EffectKind.SPAWNS_RUN),)}, "effect"),
        ({**READ, "side_effects": (DeclaredEffect(EffectKind.WRITES, "turn:x"),)}, "effect"),
        ({**READ, "repeat": RepeatPolicy.REDUNDANT}, "repeat"),
        ({"capability": Capability.ARTIFACTS_READ}, "capability"),
        ({"effect": Effect.SENSITIVE, "capability": Capability.DOCS_READ}, "capability"),
        ({"guard": Guard.EXTERNAL}, "effect_domain"),
        ({"effect_domain": EffectDomain.EXTERNAL}, "effect_domain"),
        ({"guard": Guard.EXTERNAL, "effect_domain": EffectDomain.EXTERNAL}, "later"),
        ({"collaboration": CollaborationClass.ACTOR_PRIVATE_READ}, "collaboration"),
        ({**READ, "collaboration": CollaborationClass.ACTOR_BOUND_WRITE}, "collaboration"),
        ({"side_effects": (DeclaredEffect(EffectKind.WRITES, ""),)}, "side_effects"),
        ({"side_effects": WRITES * 33}, "side_effects"),
        ({"side_effects": ("writes",)}, "side_effects"),
        ({"aliases": "note"}, "aliases"),
        ({"aliases": tuple(f"a{n}" for n in range(17))}, "aliases"),
        ({"name": 7}, "name"),
        ({"later": "no"}, "later"),
        ({"argument_cap": True}, "argument_cap"),
        ({"timeout_s": "30"}, "timeout_s"),
        ({"previewed_argument": 1}, "previewed_argument"),
        ({"family": "strangers"}, "family"),
        ({"surface": "My notes"}, "surface"),
        ({"surface": "n" * 65}, "surface"),
        ({"intent_hints": ("two\nlines",)}, "intent_hints"),
        ({"intent_hints": ("hint",) * 17}, "intent_hints"),
        ({"dialect": DRAFT_7}, "dialect"),
        ({"dialect": "https://example.test/schema"}, "dialect"),
        ({"effect": Effect.SENSITIVE, "retry_safe": True}, "retry_safe"),
        ({"uses_connection": True}, "uses_connection"),
        ({**READ, **OUTSIDE, "uses_connection": True, "parallel_safe": True}, "parallel_safe"),
        ({**READ, **OUTSIDE, "pauses": Pauses(), "parallel_safe": True}, "parallel_safe"),
        ({"pauses": Pauses()}, "pauses"),
        ({**OUTSIDE, "pauses": 60}, "pauses"),
        ({**OUTSIDE, "pauses": Pauses(default_s=0)}, "pauses"),
        ({**OUTSIDE, "pauses": Pauses(default_s=60, most_s=59)}, "pauses"),
        ({**OUTSIDE, "pauses": Pauses(most_s=24 * 24 * 3600 + 1)}, "pauses"),
    ],
)
def test_a_false_declaration_is_refused_by_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(BadSpecification) as caught:
        make(**changes)
    assert caught.value.field == field
    assert len(str(caught.value)) < 500


def test_a_declaration_says_where_it_comes_from_and_where_it_stands() -> None:
    spec = make(source="package:pen@2.0.0", version="2.0.0", family="packages", surface="pen")
    assert spec.provenance == Provenance("package:pen@2.0.0", "2.0.0")
    assert (spec.source, spec.version) == ("package:pen@2.0.0", "2.0.0")
    assert (spec.family, spec.surface, spec.name) == (Family.PACKAGES, "pen", "create_note")
    assert (make().family, make().surface) == (Family.KAIZEN, "artifacts")


@pytest.mark.parametrize(
    ("changes", "trace"),
    [
        ({**READ}, "none"),
        ({**READ, "side_effects": (DeclaredEffect(EffectKind.READS, "notes"),)}, "read"),
        ({**READ, "side_effects": DERIVED}, "derived"),
        ({**READ, "side_effects": CHILD}, "orchestration"),
        ({"side_effects": WRITES}, "mutation"),
        ({"side_effects": (*WRITES, DeclaredEffect(EffectKind.SPAWNS_RUN))}, "orchestration"),
        ({"side_effects": (*WRITES, DeclaredEffect(EffectKind.EXTERNAL_SIDE_EFFECT))}, "external"),
        ({}, "unknown"),
        ({"side_effects": (DeclaredEffect(EffectKind.READS),)}, "unknown"),
    ],
)
def test_the_trace_that_a_tool_leaves_is_another_thing_than_its_capability(
    changes: dict[str, Any], trace: str
) -> None:
    assert make(**changes).side_effect_class.value == trace


def test_the_whole_declaration_is_json_and_every_field_of_it_counts() -> None:
    spec = make(**OUTSIDE, pauses=Pauses(), side_effects=WRITES, intent_hints=("note",))
    raw = spec.as_dict()
    assert json.loads(json.dumps(raw)) == raw
    stored = {field.name for field in fields(spec)} - {"input_text", "output_text", "provenance"}
    assert set(raw) == stored | {
        "input_schema",
        "output_schema",
        "source",
        "version",
        "side_effect_class",
    }
    assert raw["pauses"] == {"default_s": 24 * 3600, "most_s": 24 * 24 * 3600}
    for changes in ({"pauses": None}, {"retry_safe": True}, {"surface": "notes"}, {"version": "2"}):
        words = {**OUTSIDE, "pauses": Pauses(), "side_effects": WRITES, "intent_hints": ("note",)}
        assert make(**{**words, **changes}).digest != spec.digest


def test_only_a_tool_of_an_mcp_server_speaks_an_older_dialect() -> None:
    old = {"type": "object", "dependencies": {"a": ["b"]}}
    spec = make(family=Family.MCP, dialect=DRAFT_7, input_schema=old)
    assert spec.argument_errors({"a": 1})
    assert spec.argument_errors({"a": 1, "b": 2}) == []
    with pytest.raises(BadSpecification):
        make(input_schema=old)


def test_only_what_is_part_of_the_program_may_have_a_large_schema() -> None:
    large = {
        "type": "object",
        "properties": {"a": {"enum": ["x" * 600 + str(n) for n in range(200)]}},
    }
    assert make(input_schema=large).argument_errors({"a": "x" * 600 + "7"}) == []
    with pytest.raises(BadSpecification, match="larger than 65,535 bytes"):
        make(input_schema=large, family="packages", surface="pen")


def test_a_specification_never_changes() -> None:
    with pytest.raises(FrozenInstanceError):
        make().name = "another"  # type: ignore[misc]


def test_a_tool_without_an_input_schema_takes_the_empty_object_only() -> None:
    spec = make(input_schema=None)
    assert spec.argument_errors({}) == []
    assert len(spec.argument_errors({"a": 1})) == 1
    assert len(spec.argument_errors([])) == 1


def test_schemas_are_handed_out_as_copies() -> None:
    given = {"type": "object", "properties": {"a": {"type": "string"}}}
    spec = make(input_schema=given)
    before = spec.digest
    given["properties"] = {}
    spec.input_schema["properties"]["a"]["type"] = "integer"
    spec.descriptor().input_schema.clear()
    assert spec.digest == before
    assert spec.input_schema["properties"] == {"a": {"type": "string"}}


def test_a_model_never_sees_a_bound_of_2000_or_more_and_the_call_still_keeps_it() -> None:
    spec = make()
    shown = spec.descriptor().input_schema["properties"]
    assert shown["body"] == {"type": "string"}
    assert shown["title"] == {"type": "string", "maxLength": 200}
    assert spec.argument_errors({"title": "t", "body": "x" * 100_001})[0].rule == "maxLength"
    assert spec.argument_errors({"title": "t", "body": "x"}) == []


def test_only_bounds_are_stripped_and_only_where_they_are_bounds() -> None:
    schema = {
        "properties": {
            "maxLength": {"type": "integer", "maximum": 5000},
            "a": {"items": {"maxItems": 2000, "minItems": 1999}},
        },
        "const": {"maxLength": 5000},
        "default": {"maxItems": 5000},
        "maxProperties": 2000.0,
        "$defs": {"x": {"anyOf": [{"minLength": 9000}, True]}},
    }
    assert project_schema(schema) == {
        "properties": {
            "maxLength": {"type": "integer", "maximum": 5000},
            "a": {"items": {"minItems": 1999}},
        },
        "const": {"maxLength": 5000},
        "default": {"maxItems": 5000},
        "$defs": {"x": {"anyOf": [{}, True]}},
    }
    assert schema["maxProperties"] == 2000.0


def test_a_catalog_is_bound_to_what_models_see() -> None:
    first, second = make(), make(name="other")
    catalog = catalog_digest([first.descriptor(), second.descriptor()])
    assert catalog == catalog_digest([second.descriptor(), first.descriptor()])
    assert catalog != catalog_digest([first.descriptor()])
    changed = make(description="Makes a note!")
    assert catalog != catalog_digest([changed.descriptor(), second.descriptor()])
    assert first.descriptor_digest == descriptor_digest(first.descriptor())
    assert first.descriptor_digest == make(title="Another", risk=Risk.HIGH).descriptor_digest


def test_a_descriptor_survives_being_stored() -> None:
    descriptor = make().descriptor()
    assert Descriptor.from_dict(descriptor.as_dict()) == descriptor
