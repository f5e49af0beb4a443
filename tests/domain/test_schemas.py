import copy
import json
from typing import Any

import pytest

from apps.domain.schemas import BadSchema, check_schema, compile_schema, dialect_of


def _deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "object", "properties": {"a": {"type": "string", "maxLength": 100_000}}},
        {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}},
        {"$id": "urn:x:a", "$anchor": "top", "items": {"$ref": "#top"}},
        {"if": {"const": 1}, "then": {"minimum": 0}, "else": False},
        {
            "format": "date-time",
            "x-note": "ours",
            "examples": [{"anything": 1}],
            "deprecated": True,
        },
        {"properties": {"maxlenght": {"type": "string"}, "nullable": {}}},
        {"enum": [{"$ref": "http://x.test/a"}]},
        {"default": {"maxlenght": 2}},
    ],
)
def test_a_sound_schema_passes(schema: Any) -> None:
    before = copy.deepcopy(schema)
    check_schema(schema)
    assert schema == before


@pytest.mark.parametrize(
    ("schema", "rule", "path"),
    [
        ([], "root", ""),
        ({"type": "strnig"}, "meta_schema", "/type"),
        ({"properties": {"a": {"minLength": -1}}}, "meta_schema", "/properties/a/minLength"),
        ({"items": [{}]}, "meta_schema", "/items"),
        ({"$ref": "http://x.test/a"}, "remote_reference", "/$ref"),
        ({"$ref": "file:///etc/passwd"}, "remote_reference", "/$ref"),
        ({"$ref": "other.json#/a"}, "remote_reference", "/$ref"),
        ({"$dynamicRef": "https://x.test/#a"}, "remote_reference", "/$dynamicRef"),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, "remote_reference", "/$ref"),
        (
            {"$id": "https://x.test/a", "allOf": [{"$ref": "b"}]},
            "remote_reference",
            "/allOf/0/$ref",
        ),
        ({"$ref": "#/$defs/none"}, "reference", None),
        ({"$ref": "#none"}, "reference", None),
        ({"$ref": "#"}, "loop", None),
        ({"pattern": "("}, "pattern", "/pattern"),
        ({"pattern": "^(?=a)b"}, "pattern", "/pattern"),
        ({"pattern": r"(a)\1"}, "pattern", "/pattern"),
        ({"format": "wonderful"}, "unenforceable", "/format"),
        ({"properties": {"a": {"maxlenght": 3}}}, "unenforceable", "/properties/a/maxlenght"),
        ({"type": "string", "nullable": True}, "unenforceable", "/nullable"),
        ({"dependencies": {"a": ["b"]}}, "unenforceable", "/dependencies"),
        ({"then": {"minimum": 1}}, "unenforceable", "/then"),
        ({"minContains": 2}, "unenforceable", "/minContains"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "dialect", "/$schema"),
        ({"$schema": "https://x.test/mine"}, "dialect", "/$schema"),
        (
            {"not": {"$schema": "http://json-schema.org/draft-07/schema#"}},
            "dialect",
            "/not",
        ),
        ({"description": "x" * 70_000}, "size", ""),
        (_deep(70), "depth", ""),
        (_deep(500), "not_json", ""),
        ({"const": float("nan")}, "not_json", ""),
        ({"const": {1: 2}}, "not_json", ""),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_schema_that_we_cannot_keep_is_refused(schema: Any, rule: str, path: str | None) -> None:
    with pytest.raises(BadSchema) as caught:
        check_schema(schema)
    assert caught.value.rule == rule
    assert path is None or caught.value.path == path
    assert len(caught.value.message) < 400


@pytest.mark.parametrize("schema", [{}, True, {"type": ["object"]}, {"type": "array"}])
def test_the_root_of_an_input_is_an_object(schema: Any) -> None:
    with pytest.raises(BadSchema):
        check_schema(schema, root_object=True)


def test_schemas_of_others_may_hold_words_that_we_do_not_enforce() -> None:
    check_schema({"nullable": True, "format": "wonderful", "pattern": "^(?=a)"}, strict_own=False)


def test_schemas_of_others_may_point_into_themselves_by_their_own_name() -> None:
    schema = {
        "$id": "https://x.test/a",
        "$ref": "b#/x",
        "$defs": {"b": {"$id": "b", "x": {"type": "string"}}},
    }
    check_schema(schema, strict_own=False)


@pytest.mark.parametrize(
    ("declared", "dialect"),
    [
        (None, "https://json-schema.org/draft/2020-12/schema"),
        ("http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-07/schema"),
        ("http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-06/schema"),
    ],
)
def test_a_schema_declares_its_dialect(declared: str | None, dialect: str) -> None:
    assert dialect_of({} if declared is None else {"$schema": declared}) == dialect


SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["a", "b"]},
        "one": {"const": 1},
        "text": {"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^a"},
        "mail": {"format": "email"},
        "number": {"minimum": 1, "exclusiveMaximum": 5, "multipleOf": 2},
        "list": {"minItems": 1, "maxItems": 2, "uniqueItems": True, "items": {"type": "integer"}},
        "form": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "never": False,
    },
    "required": ["kind"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "path", "rule", "words"),
    [
        ({}, "", "required", '"kind"'),
        ({"kind": "SECRET"}, "/kind", "enum", '"a", "b"'),
        ({"kind": "a", "one": "SECRET"}, "/one", "const", "exactly 1"),
        ({"kind": "a", "text": 5}, "/text", "type", "string"),
        ({"kind": "a", "text": "aSECRET"}, "/text", "maxLength", "3 characters"),
        ({"kind": "a", "text": "a"}, "/text", "minLength", "2 characters"),
        ({"kind": "a", "text": "SEC"}, "/text", "pattern", '"^a"'),
        ({"kind": "a", "mail": "SECRET"}, "/mail", "format", "email"),
        ({"kind": "a", "number": 0}, "/number", "minimum", "1"),
        ({"kind": "a", "number": 6}, "/number", "exclusiveMaximum", "5"),
        ({"kind": "a", "number": 3}, "/number", "multipleOf", "2"),
        ({"kind": "a", "list": []}, "/list", "minItems", "1"),
        ({"kind": "a", "list": [1, 1]}, "/list", "uniqueItems", "twice"),
        ({"kind": "a", "list": ["SECRET"]}, "/list/0", "type", "integer"),
        ({"kind": "a", "form": ["SECRET"]}, "/form", "oneOf", "one of the forms"),
        ({"kind": "a", "never": "SECRET"}, "/never", "falseSchema", "not allowed"),
        ({"kind": "a", "new\n'\"": "SECRET"}, "", "additionalProperties", "\\x0a"),
        ([], "", "type", "object"),
    ],
)
def test_an_error_says_where_and_what_and_never_the_value(
    value: Any, path: str, rule: str, words: str
) -> None:
    errors = compile_schema(SCHEMA).errors(value)
    assert [(error.path, error.rule) for error in errors] == [(path, rule)]
    assert words in errors[0].text
    assert "SECRET" not in json.dumps(errors[0].as_dict())


def test_errors_are_few_and_short() -> None:
    long_name = "n" * 5000 + "\u2028é\x00"
    schema = {"type": "object", "additionalProperties": {"additionalProperties": False}}
    value = {f"{index}{long_name}": {long_name: 1, long_name + "x": 2} for index in range(50)}
    errors = compile_schema(schema).errors(value)
    whole = json.dumps([error.as_dict() for error in errors])
    assert len(errors) == 5
    assert len(whole) < 4096
    assert whole.isascii()


def test_a_default_changes_no_argument() -> None:
    value: dict[str, Any] = {}
    compile_schema({"type": "object", "properties": {"a": {"default": 1}}}).errors(value)
    assert value == {}


def test_a_compiled_schema_is_kept_by_its_content() -> None:
    assert compile_schema({"type": "string", "title": "t"}) is compile_schema(
        {"title": "t", "type": "string"}
    )


def test_a_pattern_cannot_hold_a_worker() -> None:
    validator = compile_schema({"pattern": r"^(?=a)(a|aa)+\1$"}, strict=False)
    assert not validator.is_valid("a" * 5000 + "b")


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    validator = compile_schema({"properties": {"child": {"$ref": "#"}}, "type": "object"})
    assert validator.is_valid({"child": {"child": {}}})
    assert not validator.is_valid({"child": {"child": 1}})
