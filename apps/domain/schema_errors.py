"""What may be said about a value that breaks its schema?

Where it is wrong, which rule it breaks, and what the schema asks for: never the value. An
argument may hold anything, and an error travels to models, rooms and logs.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs

from apps.domain.canonical import pointer
from apps.domain.words import shown

MAX_ERRORS: Final = 5
# Five errors of these bounds, with their frame in JSON, stay under 4 KiB.
_MAX_PATH: Final = 180
_MAX_TEXT: Final = 320

Kind = jsonschema_rs.ValidationErrorKind


@dataclass(frozen=True, slots=True)
class SchemaError:
    """One broken rule: where in the value, where in the schema, which keyword, and what it asks."""

    path: str
    schema_path: str
    rule: str
    text: str
    # The property names that the rule is about, where it is about names.
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.path or 'The value'} {self.text}"

    def as_dict(self) -> dict[str, str]:
        """Return the error as a JSON object."""
        return {
            "path": self.path,
            "schema_path": self.schema_path,
            "rule": self.rule,
            "message": self.text,
        }


def as_schema_error(error: jsonschema_rs.ValidationError) -> SchemaError:
    """Translate the engine's error into one that quotes no value."""
    kind = error.kind
    describe = _SENTENCES.get(kind.name, _by_rule)
    return SchemaError(
        path=_bounded(pointer(list(error.instance_path)), _MAX_PATH),
        schema_path=_bounded(pointer(list(error.schema_path)), _MAX_PATH),
        rule=_bounded(kind.name, 40),
        text=_bounded(describe(kind), _MAX_TEXT),
        names=_concerned(kind),
    )


def _concerned(kind: Any) -> tuple[str, ...]:
    names = [kind.property] if kind.name == "required" else getattr(kind, "unexpected", [])
    return tuple(_bounded(str(name), 60) for name in names[:8])


def _bounded(text: str, limit: int) -> str:
    return shown(text, limit=limit)[1:-1]


def _names(names: list[Any]) -> str:
    some = ", ".join(shown(str(name), limit=40) for name in names[:4])
    return some if len(names) <= 4 else f"{some} and {len(names) - 4} more"


def _literal(value: Any) -> str:
    """Return a value of the schema (never one of the instance) as short JSON."""
    return _bounded(json.dumps(value), 60)


def _literals(values: list[Any]) -> str:
    some = ", ".join(map(_literal, values[:4]))
    return some if len(values) <= 4 else f"{some} and {len(values) - 4} more"


def _by_rule(kind: Any) -> str:
    return f"breaks the rule {shown(kind.name, limit=40)} of its schema."


def _limit(words: str) -> Callable[[Any], str]:
    return lambda kind: words.format(kind.limit)


_SENTENCES: Final[dict[str, Callable[[Any], str]]] = {
    "type": lambda kind: f"must be of type {' or '.join(map(str, kind.types))}.",
    "required": lambda kind: f"lacks the required property {shown(kind.property)}.",
    "additionalProperties": lambda kind: (
        f"has properties that the schema does not allow: {_names(kind.unexpected)}."
    ),
    "unevaluatedProperties": lambda kind: (
        f"has properties that the schema does not allow: {_names(kind.unexpected)}."
    ),
    "unevaluatedItems": lambda kind: "has items that the schema does not allow.",
    "additionalItems": _limit("may have at most {} items."),
    "enum": lambda kind: f"must be one of {_literals(kind.options)}.",
    "const": lambda kind: f"must be exactly {_literal(kind.expected_value)}.",
    "pattern": lambda kind: f"must match the pattern {shown(kind.pattern, limit=120)}.",
    "format": lambda kind: f"must be a valid {shown(kind.format, limit=40)}.",
    "maxLength": _limit("may have at most {} characters."),
    "minLength": _limit("must have at least {} characters."),
    "maxItems": _limit("may have at most {} items."),
    "minItems": _limit("must have at least {} items."),
    "maxProperties": _limit("may have at most {} properties."),
    "minProperties": _limit("must have at least {} properties."),
    "maximum": _limit("may be at most {}."),
    "minimum": _limit("must be at least {}."),
    "exclusiveMaximum": _limit("must be less than {}."),
    "exclusiveMinimum": _limit("must be greater than {}."),
    "multipleOf": lambda kind: f"must be a multiple of {kind.multiple_of}.",
    "uniqueItems": lambda kind: "must have no item twice.",
    "contains": lambda kind: "does not contain the items that the schema asks for.",
    "anyOf": lambda kind: "fits none of the forms that the schema offers.",
    "oneOf": lambda kind: "must fit exactly one of the forms that the schema offers.",
    "not": lambda kind: "has a form that the schema rules out.",
    "falseSchema": lambda kind: "is not allowed here.",
    "propertyNames": lambda kind: "has a property whose name the schema does not allow.",
    "dependentRequired": lambda kind: "lacks a property that another of its properties requires.",
}
