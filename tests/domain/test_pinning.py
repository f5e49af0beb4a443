"""Arguments that the deployment sets itself: out of sight, out of reach, and in every digest."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.domain.pinning import MAX_PINNED, BadPin, Pins, check_pins, refusal_of
from apps.domain.tooling import (
    Capability,
    CollaborationClass,
    Effect,
    EffectDomain,
    Guard,
    Specification,
    project_schema,
    specify,
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "maxLength": 20},
        "region": {"enum": ["eu", "us"]},
        "body": {"type": "string"},
        "copies": {"$ref": "#/$defs/count"},
    },
    "required": ["to", "region"],
    "additionalProperties": False,
    "$defs": {"count": {"type": "integer", "minimum": 1}},
}


def tool(schema: dict[str, Any] = SCHEMA, **words: Any) -> Specification:
    return specify(
        name="send",
        title="Send",
        description="Send something.",
        input_schema=schema,
        effect=Effect.WRITE,
        capability=Capability.ARTIFACTS_WRITE,
        guard=Guard.MEMBER_STORE,
        effect_domain=EffectDomain.OURS,
        collaboration=CollaborationClass.ACTOR_BOUND_WRITE,
        **words,
    )


def test_a_pinned_argument_leaves_what_a_model_sees_and_nothing_else_does() -> None:
    projected = project_schema(SCHEMA, without={"region"})
    assert sorted(projected["properties"]) == ["body", "copies", "to"]
    assert projected["required"] == ["to"]
    assert "required" not in project_schema(SCHEMA, without={"region", "to"})
    # The declaration itself is as it was.
    assert SCHEMA["required"] == ["to", "region"]
    assert "region" in tool().input_schema["properties"]


def test_pinned_values_are_merged_and_a_proposal_cannot_name_them() -> None:
    pins = Pins.of({"region": "eu"})
    assert pins.merged({"to": "tomas"}) == {"to": "tomas", "region": "eu"}
    assert pins.named_in({"to": "tomas"}) == []
    # Not even with the very value: taking it would tell a model that its guess was right.
    for guess in ("eu", "us", None):
        assert pins.named_in({"to": "tomas", "region": guess}) == ["region"]
    assert refusal_of(["region"]) == 'The deployment sets "region" itself. Leave it out.'


def test_pins_cannot_be_changed_from_outside() -> None:
    values = {"region": ["eu"]}
    pins = Pins.of(values)
    values["region"].append("us")
    pins.values["region"].append("asia")
    assert pins.values == {"region": ["eu"]}


def test_what_is_pinned_is_part_of_the_contracts_digest() -> None:
    spec = tool()
    plain, eu, us = (Pins(), Pins.of({"region": "eu"}), Pins.of({"region": "us"}))
    assert plain.digest_of(spec) == spec.digest
    assert len({pins.digest_of(spec) for pins in (plain, eu, us)}) == 3


@pytest.mark.parametrize(
    ("values", "argument", "says"),
    [
        ({"colour": "red"}, "colour", "no argument"),
        ({"region": "asia"}, "region", "not valid"),
        ({"to": 7}, "to", "not valid"),
        ({"to": "x" * 21}, "to", "not valid"),
        ({"copies": 0}, "copies", "not valid"),
        ({"body": "x" * 9_000}, "", "bytes"),
    ],
)
def test_only_valid_values_of_arguments_that_exist_are_pinned(
    values: dict[str, Any], argument: str, says: str
) -> None:
    with pytest.raises(BadPin) as refused:
        check_pins(tool(), Pins.of(values))
    assert refused.value.argument == argument
    assert says in refused.value.message


def test_valid_values_are_pinned_also_where_they_alone_are_no_whole_call() -> None:
    check_pins(tool(), Pins.of({"region": "eu"}))
    check_pins(tool(), Pins.of({"copies": 2, "to": "tomas"}))


def test_so_many_arguments_are_pinned_at_most() -> None:
    names = {f"a{number}": {"type": "integer"} for number in range(MAX_PINNED + 1)}
    spec = tool({"type": "object", "properties": names})
    with pytest.raises(BadPin, match="At most"):
        check_pins(spec, Pins.of(dict.fromkeys(names, 1)))


def test_an_argument_that_is_shown_while_it_is_written_stays_the_models() -> None:
    spec = tool(previewed_argument="body")
    with pytest.raises(BadPin, match="while it is written"):
        check_pins(spec, Pins.of({"body": "Hello"}))


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("anyOf", [{"required": ["region"]}, {"required": ["body"]}]),
        ("oneOf", [{"properties": {"region": {"const": "eu"}}}, {"required": ["body"]}]),
        ("not", {"required": ["region", "body"]}),
        ("if", {"properties": {"region": {"const": "eu"}}}),
        ("dependentRequired", {"body": ["region"]}),
        ("minProperties", 2),
        ("maxProperties", 3),
        ("propertyNames", {"maxLength": 9}),
        ("examples", [{"region": "eu"}]),
    ],
)
def test_an_argument_is_not_pinned_where_the_schema_ties_it_to_others(
    keyword: str, value: Any
) -> None:
    schema = {**SCHEMA, keyword: value}
    if keyword == "if":
        schema["then"] = {"required": ["body"]}
    with pytest.raises(BadPin, match=keyword):
        check_pins(tool(schema), Pins.of({"region": "eu"}))


def test_an_argument_is_not_pinned_where_another_refers_to_it() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"$ref": "#/properties/a"}},
    }
    with pytest.raises(BadPin, match="no longer holds"):
        check_pins(tool(schema), Pins.of({"a": "x"}))
    check_pins(tool(schema), Pins.of({"b": "x"}))


def test_a_tie_between_other_arguments_is_no_hindrance() -> None:
    schema = {**SCHEMA, "anyOf": [{"required": ["body"]}, {"required": ["copies"]}]}
    check_pins(tool(schema), Pins.of({"region": "eu"}))


words = st.sampled_from(["to", "region", "body", "copies"])
plain = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4)


@given(st.dictionaries(words, plain), st.dictionaries(words, plain))
@settings(deadline=None)
def test_a_proposal_that_passes_never_has_a_say_in_what_is_pinned(
    pinned: dict[str, Any], proposed: dict[str, Any]
) -> None:
    pins = Pins.of(pinned)
    whole = pins.merged(proposed)
    assert {name: whole[name] for name in pinned} == pinned
    if not pins.named_in(proposed):
        assert pins.without(whole) == proposed
