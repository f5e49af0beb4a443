"""What a hostile schema or value may cost: bounded before it is spent."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.domain.schema_cost import (
    EXPLANATION_UNITS,
    JUDGEMENT_UNITS,
    MAX_UNITS,
    TooCostly,
    cost_of,
    measure,
)
from apps.domain.schemas import (
    DIALECTS,
    DRAFT_6,
    DRAFT_2019_09,
    BadSchema,
    check_schema,
    compile_schema,
)


def doubling(levels: int, **step: Any) -> dict[str, Any]:
    """Each level asks the next one twice."""
    places = {f"a{n}": _twice(f"#/$defs/a{n + 1}", **step) for n in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**places, f"a{levels}": {"type": "integer"}}}


def _twice(target: str, **step: Any) -> dict[str, Any]:
    again = {"$ref": target}
    return {word: [again, again] if many else again for word, many in step.items()}


def nested(levels: int, leaf: Any) -> Any:
    for _ in range(levels):
        leaf = {"a": leaf}
    return leaf


CHILD = {"properties": {"a": {"$ref": "#"}}}
# Each of them asks about a child in two ways, so that reasons double with every level.
SPREADING: dict[str, dict[str, Any]] = {
    "allOf": {"type": "object", "allOf": [CHILD, CHILD]},
    "oneOf": {"type": "object", "oneOf": [{**CHILD, "required": ["k"]}, CHILD]},
    "unevaluated": {
        "type": "object",
        "unevaluatedProperties": False,
        "anyOf": [CHILD, {"not": {"not": CHILD}}],
    },
    "dynamic": {
        "$dynamicAnchor": "m",
        "type": "object",
        "allOf": [{"properties": {"a": {"$dynamicRef": "#m"}}}] * 2,
    },
}


@pytest.mark.parametrize(
    ("schema", "rule"),
    [
        (doubling(60, allOf=True), "cost"),
        (doubling(60, anyOf=True), "cost"),
        (doubling(60, items=False, contains=False), "cost"),
        (doubling(60, dependentSchemas=True) | {"dependentSchemas": {}}, "meta_schema"),
        ({"$ref": "#"}, "loop"),
        ({"allOf": [{"$ref": "#"}]}, "loop"),
        ({"not": {"not": {"$ref": "#"}}}, "loop"),
        ({"$dynamicAnchor": "m", "anyOf": [{"$dynamicRef": "#m"}, {}]}, "loop"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#"}}}, "loop"),
        ({"enum": list(range(20_000)), "$defs": {}}, "size"),
        ({"allOf": [{}] * 2_001}, "count"),
        ({"patternProperties": {f"^p{n}$": True for n in range(65)}}, "patterns"),
        ({"pattern": "(a{1000}){1000}"}, "pattern"),
        ({"pattern": "a|" * 30_000}, "pattern"),
        ({"pattern": "(" * 20_000 + ")" * 20_000}, "pattern"),
        ({"allOf": [{"pattern": rf"^\p{{L}}{{1,{n}}}$"} for n in range(100, 150)]}, "pattern"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_schema_that_would_cost_too_much_is_refused_by_name(schema: Any, rule: str) -> None:
    with pytest.raises(BadSchema) as caught:
        check_schema(schema)
    assert caught.value.rule == rule


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/x-a", "x-a": {"maxlenght": 3}},
        {"$ref": "#/default", "default": {"type": "string"}},
        {"$ref": "#/enum/0", "enum": [{"type": "string"}]},
    ],
)
def test_a_reference_of_ours_leads_to_a_schema_that_was_checked(schema: dict[str, Any]) -> None:
    with pytest.raises(BadSchema) as caught:
        check_schema(schema)
    assert caught.value.rule == "reference"
    check_schema(schema, strict_own=False)


def test_doubling_that_hides_where_no_schema_is_expected_is_counted_too() -> None:
    hidden = {f"a{n}": _twice(f"#/x-more/a{n + 1}", allOf=True) for n in range(40)}
    schema = {"$ref": "#/x-more/a0", "x-more": {**hidden, "a40": {}}}
    with pytest.raises(BadSchema) as caught:
        check_schema(schema, strict_own=False)
    assert caught.value.rule == "cost"


@pytest.mark.parametrize("name", SPREADING)
def test_a_recursive_schema_judges_deep_values_and_explains_shallow_ones(name: str) -> None:
    schema = SPREADING[name]
    check_schema(schema)
    validator = compile_schema(schema)
    assert validator.errors(nested(60, {})) == [] or name == "oneOf"
    assert validator.errors(nested(1, 1))[0].rule in ("type", "oneOf", "anyOf")
    (error,) = validator.errors(nested(60, 1))
    assert error.rule == "schema"
    assert "too many parts" in error.text


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"anyOf": [{"const": n} for n in range(1_500)]}}, [-1] * 30_000),
        ({"items": {"enum": list(range(8_000))}}, [-1] * 30_000),
        ({"items": {"enum": [{"a": [n]} for n in range(4_000)]}}, [{"a": [-1]}] * 4_000),
        (
            {"patternProperties": {f"p{n}$": True for n in range(60)}},
            {f"p{n}": 1 for n in range(4_000)},
        ),
        (
            {
                "unevaluatedProperties": False,
                "anyOf": [{"properties": {f"p{n}": True}} for n in range(900)],
            },
            {f"p{n}": 1 for n in range(2_000)},
        ),
    ],
    ids=["anyOf", "enum", "enum of objects", "patternProperties", "unevaluatedProperties"],
)
def test_a_value_with_too_many_parts_is_refused_before_it_is_judged(
    schema: Any, value: Any
) -> None:
    check_schema(schema)
    validator = compile_schema(schema)
    assert [error.rule for error in validator.errors(value)] == ["cost"]
    assert not validator.is_valid(value)


def test_a_long_list_has_its_first_fault_named() -> None:
    validator = compile_schema({"items": {"type": "string"}})
    value: list[Any] = ["a"] * 30_000 + [1]
    assert [(error.path, error.rule) for error in validator.errors(value)] == [("/30000", "type")]


def test_an_ordinary_large_value_is_judged_whole() -> None:
    row = {name: {"type": "integer"} for name in "abcdefgh"}
    schema = {"items": {"properties": row, "required": list(row), "additionalProperties": False}}
    assert compile_schema(schema).is_valid([dict.fromkeys(row, 1)] * 5_000)


def test_a_pattern_that_looks_back_is_held_to_short_texts() -> None:
    validator = compile_schema({"items": {"pattern": r"^(?=(\w+))\1:"}}, strict=False)
    assert validator.is_valid(["abc:"])
    assert [error.rule for error in validator.errors(["a" * 4_097])] == ["cost"]
    plain = compile_schema({"items": {"pattern": "^a+$"}}, strict=False)
    assert plain.is_valid(["a" * 60_000])


@pytest.mark.parametrize("dialect", [DRAFT_6, DRAFT_2019_09])
def test_a_large_enum_of_mixed_values_passes_every_meta_schema(dialect: str) -> None:
    enum = [[n] if n % 3 == 0 else {"a": n} if n % 3 == 1 else str(n) for n in range(5_000)]
    check_schema({"enum": enum}, dialect=dialect, strict_own=False)


def test_one_validator_serves_many_threads_and_only_so_many_are_kept() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

    def judge(number: int) -> int:
        own = compile_schema({**schema, "title": str(number % 700)})
        return len(own.errors({"a": number})) + len(own.errors({"a": str(number)}))

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(judge, range(2_000))) == [1] * 2_000
    from apps.domain.schemas import compile_text

    assert compile_text.cache_info().currsize <= 512


# --- whatever the schema looks like, what is asked stays under what was reckoned ---

SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([True, {}, {"type": "integer"}, {"const": 1}, {"enum": [1, 2]}])
    | st.integers(0, 3).map(lambda n: {"$ref": f"#/$defs/d{n}"}),
    lambda inner: (
        st.fixed_dictionaries({}, optional={"allOf": st.lists(inner, min_size=1, max_size=3)})
        | st.fixed_dictionaries({}, optional={"anyOf": st.lists(inner, min_size=1, max_size=3)})
        | st.fixed_dictionaries({}, optional={"not": inner, "if": inner, "then": inner})
        | st.fixed_dictionaries(
            {}, optional={"properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2)}
        )
        | st.fixed_dictionaries({}, optional={"items": inner, "contains": inner})
        | st.fixed_dictionaries({}, optional={"additionalProperties": inner})
    ),
    max_leaves=8,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=12,
)


def questions(schema: Any, value: Any, root: dict[str, Any], fuel: list[int]) -> int:
    """Count every schema that a plain validator would ask about every part of a value."""
    fuel[0] -= 1
    if fuel[0] < 0 or not isinstance(schema, dict):
        return 1
    here = [schema[word] for word in ("not", "if", "then") if word in schema]
    here += [one for word in ("allOf", "anyOf") for one in schema.get(word, [])]
    if "$ref" in schema:
        here.append(root["$defs"][schema["$ref"].rpartition("/")[2]])
    count = 1 + sum(questions(one, value, root, fuel) for one in here)
    if isinstance(value, list):
        for item in value:
            for word in ("items", "contains"):
                count += questions(schema[word], item, root, fuel) if word in schema else 0
    if isinstance(value, dict):
        named = schema.get("properties", {})
        for name, item in value.items():
            asked = named.get(name, schema.get("additionalProperties"))
            count += questions(asked, item, root, fuel) if asked is not None else 0
    return count


@settings(max_examples=300, deadline=None)
@given(SCHEMAS, st.lists(SCHEMAS, min_size=4, max_size=4), VALUES)
def test_what_is_asked_stays_under_what_was_reckoned(
    root: Any, defs: list[Any], value: Any
) -> None:
    schema = {**(root if isinstance(root, dict) else {}), "$defs": {}}
    schema["$defs"] = {f"d{n}": one for n, one in enumerate(defs)}
    try:
        cost = cost_of(schema)
    except TooCostly:
        return
    places, depth = measure(value, most=10**9)
    assert cost.units <= MAX_UNITS
    fuel = [200_000]
    asked = questions(schema, value, schema, fuel)
    # Where the engine does not remember what it found, its ways multiply with the depth.
    assert asked <= places * cost.units * cost.growth**depth


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "$ref",
                        "$defs",
                        "$id",
                        "$anchor",
                        "$dynamicRef",
                        "$dynamicAnchor",
                        "$recursiveRef",
                        "allOf",
                        "anyOf",
                        "not",
                        "items",
                        "properties",
                        "pattern",
                        "patternProperties",
                        "dependencies",
                        "enum",
                        "type",
                        "required",
                        "unevaluatedItems",
                        "a",
                    ]
                )
                | st.text(max_size=3),
                inner,
                max_size=5,
            )
        ),
        max_leaves=20,
    ),
    st.sampled_from(DIALECTS),
    st.booleans(),
)
def test_whatever_is_handed_in_as_a_schema_is_accepted_or_refused_by_name(
    schema: Any, dialect: str, strict: bool
) -> None:
    try:
        check_schema(schema, dialect=dialect, strict_own=strict)
    except BadSchema as refusal:
        refused = refusal
    else:
        refused = None
    if refused is not None:
        assert refused.rule
        assert len(refused.message) < 400
        return
    errors = compile_schema(schema, dialect=dialect, strict=strict).errors({"a": [1, "x", None]})
    assert len(json.dumps([error.as_dict() for error in errors])) < 4_096


def test_seeing_that_something_is_wrong_may_cost_more_than_saying_what() -> None:
    assert EXPLANATION_UNITS < MAX_UNITS < JUDGEMENT_UNITS
