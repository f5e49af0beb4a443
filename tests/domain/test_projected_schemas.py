"""One point, for tools of every origin: no length bound of 2,000 or more reaches a model."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.domain.manifests import parse_manifest
from apps.domain.schemas import DRAFT_6, DRAFT_7, DRAFT_2019_09
from apps.domain.tooling import Specification, descriptor_digest, project_schema
from tests.domain.test_manifests import with_definition
from tests.domain.test_tooling import make

LARGE: dict[str, Any] = {
    "type": ["string", "array", "object"],
    "maxLength": 100_000,
    "minLength": 2_000,
    "maxItems": 2_000,
    "minItems": 2_500,
    "maxProperties": 9_000,
    "minProperties": 2_000,
}
SMALL = {"maxLength": 1_999, "minItems": 1}
BOUNDS = (*LARGE, "maxContains", "minContains")


def places(part: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A schema for each way in which a part may lie inside another."""
    return {
        "properties": {"properties": {"a": part}},
        "nested properties": {
            "properties": {"a": {"properties": {"b": {"properties": {"c": part}}}}}
        },
        "items": {"properties": {"a": {"items": part}}},
        "$defs": {"$defs": {"x": part}, "properties": {"a": {"$ref": "#/$defs/x"}}},
        "allOf": {"allOf": [{"properties": {"a": part}}]},
        "anyOf": {"properties": {"a": {"anyOf": [part, {"type": "null"}]}}},
        "oneOf": {"properties": {"a": {"oneOf": [{"type": "null"}, part]}}},
        "not": {"properties": {"a": {"not": part}}},
        "if, then, else": {"properties": {"a": {"if": part, "then": part, "else": part}}},
        "additionalProperties": {"additionalProperties": part},
        "patternProperties": {"patternProperties": {"^a": part}},
        "propertyNames": {"propertyNames": part},
    }


NEWER: dict[str, dict[str, Any]] = {
    "prefixItems": {"properties": {"a": {"prefixItems": [LARGE | SMALL]}}},
    "dependentSchemas": {"dependentSchemas": {"a": LARGE | SMALL}},
    "unevaluatedItems": {"properties": {"a": {"unevaluatedItems": LARGE | SMALL}}},
    "contains": {
        "properties": {"a": {"contains": LARGE | SMALL, "maxContains": 2_000, "minContains": 2_000}}
    },
}
OLDER: dict[str, dict[str, Any]] = {
    "definitions": {
        "definitions": {"x": LARGE | SMALL},
        "properties": {"a": {"$ref": "#/definitions/x"}},
    },
    "dependencies": {"dependencies": {"a": LARGE | SMALL, "b": ["a"]}},
    "items": {"properties": {"a": {"items": [LARGE | SMALL], "additionalItems": LARGE | SMALL}}},
    "where no schema is expected": {
        "properties": {"a": {"$ref": "#/x-more/b~1c"}},
        "x-more": {"b/c": {"properties": {"d": LARGE | SMALL}}},
    },
}


def bounds_in(value: Any) -> Iterator[float]:
    """Every length bound anywhere in a schema without names and data that look like one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in BOUNDS and isinstance(inner, int | float):
                yield inner
            yield from bounds_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from bounds_in(inner)


def of_our_own(schema: dict[str, Any]) -> Specification:
    return make(input_schema=schema)


def of_a_package(schema: dict[str, Any]) -> Specification:
    return parse_manifest(with_definition(input=schema)).tools[0].specification()


def of_an_mcp_server(schema: dict[str, Any]) -> Specification:
    return make(input_schema=schema, family="mcp", surface="server")


@pytest.mark.parametrize("origin", [of_our_own, of_a_package, of_an_mcp_server])
@pytest.mark.parametrize("name", [*places(LARGE), *NEWER])
def test_no_large_bound_of_any_origin_reaches_a_model(origin: Any, name: str) -> None:
    schema = {"type": "object", **(places(LARGE | SMALL) | NEWER)[name]}
    spec = origin(copy.deepcopy(schema))
    shown = list(bounds_in(spec.descriptor().input_schema))
    assert shown
    assert max(shown) < 2_000
    assert spec.input_schema == schema
    assert spec.descriptor_digest == descriptor_digest(spec.descriptor())


@pytest.mark.parametrize("dialect", [DRAFT_6, DRAFT_7, DRAFT_2019_09])
@pytest.mark.parametrize("name", OLDER)
def test_no_large_bound_of_an_older_dialect_reaches_a_model(dialect: str, name: str) -> None:
    spec = make(
        input_schema={"type": "object", **OLDER[name]},
        family="mcp",
        surface="server",
        dialect=dialect,
    )
    shown = list(bounds_in(spec.descriptor().input_schema))
    assert shown
    assert max(shown) < 2_000


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [("^a{1,1999}$", True), ("^a{2000}$", False), ("^a{1,2000}$", False), ("2000", True)],
)
def test_a_repetition_inside_a_pattern_is_a_bound_too(pattern: str, kept: bool) -> None:
    assert project_schema({"pattern": pattern}) == ({"pattern": pattern} if kept else {})


SCHEMAS = st.recursive(
    st.dictionaries(st.sampled_from(BOUNDS[1:]), st.integers(0, 4_000), max_size=3),
    lambda inner: st.one_of(
        st.builds(lambda one: {"items": one}, inner),
        st.builds(lambda many: {"anyOf": many}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda many: {"properties": many},
            st.dictionaries(st.sampled_from(["a", "maxLength", "items"]), inner, max_size=2),
        ),
        st.builds(lambda many: {"$defs": many}, st.dictionaries(st.just("d"), inner, max_size=1)),
    ),
    max_leaves=8,
)


def without_large(schema: Any) -> Any:
    """The same, said in the plainest way."""
    if isinstance(schema, list):
        return [without_large(one) for one in schema]
    kept = {}
    for key, inner in schema.items():
        if key in ("properties", "$defs"):
            kept[key] = {name: without_large(one) for name, one in inner.items()}
        elif isinstance(inner, dict | list):
            kept[key] = without_large(inner)
        elif inner < 2_000:
            kept[key] = inner
    return kept


@settings(max_examples=200, deadline=None)
@given(SCHEMAS)
def test_only_large_bounds_are_taken_away_and_nothing_else(schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    assert project_schema(schema) == without_large(schema)
    assert schema == before
    assert project_schema(project_schema(schema)) == project_schema(schema)
