"""Which keywords does each JSON Schema dialect know, and where do its subschemas lie?

Everything that reads schemas walks them with `subschemas`, so that a property that happens to
be called `maxLength`, or an example that looks like a schema, is never mistaken for one.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"
DRAFT_2019_09 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_7 = "http://json-schema.org/draft-07/schema"
DRAFT_6 = "http://json-schema.org/draft-06/schema"
DIALECTS = (DRAFT_2020_12, DRAFT_2019_09, DRAFT_7, DRAFT_6)

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

# Keywords whose value is one schema, a list of schemas, or a map from names to schemas.
ONE = frozenset(
    [
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
MANY = frozenset(["allOf", "anyOf", "items", "oneOf", "prefixItems"])
NAMED = frozenset(
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"]
)

_STRUCTURE = frozenset(
    ["$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$ref", "$schema"]
)
_ANNOTATIONS = frozenset(
    [
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "default",
        "deprecated",
        "description",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    ]
)
_ASSERTIONS = frozenset(
    [
        "additionalProperties",
        "allOf",
        "anyOf",
        "const",
        "contains",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "if",
        "items",
        "maxContains",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "not",
        "oneOf",
        "pattern",
        "patternProperties",
        "prefixItems",
        "properties",
        "propertyNames",
        "required",
        "then",
        "type",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    ]
)
# What our own declarations may use: the validator enforces every assertion among these.
OUR_KEYWORDS = _STRUCTURE | _ANNOTATIONS | _ASSERTIONS

# A keyword that means nothing without its partner would look like a check and be none.
PARTNERS = {
    "then": "if",
    "else": "if",
    "minContains": "contains",
    "maxContains": "contains",
}


class Subschema(NamedTuple):
    """One schema inside another: its path, itself, and the base its references resolve against."""

    path: tuple[str | int, ...]
    schema: Any
    base: str


def subschemas(root: Any) -> Iterator[Subschema]:
    """Yield the schema itself and every schema inside it, outermost first."""
    waiting: list[Subschema] = [Subschema((), root, "")]
    while waiting:
        path, schema, base = waiting.pop()
        if not isinstance(schema, dict):
            yield Subschema(path, schema, base)
            continue
        own = schema.get("$id")
        # A fragment alone names a place, in the older drafts, and no new base.
        if isinstance(own, str) and not own.startswith("#"):
            base = urldefrag(urljoin(base, own))[0]
        yield Subschema(path, schema, base)
        inner = list(_inside(schema))
        waiting.extend(Subschema((*path, *step), found, base) for step, found in reversed(inner))


def _inside(schema: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    for keyword, value in schema.items():
        if keyword in NAMED and isinstance(value, dict):
            # The old `dependencies` also maps names to lists of property names.
            for name, inner in value.items():
                if isinstance(inner, dict | bool):
                    yield (keyword, name), inner
        elif keyword in MANY and isinstance(value, list):
            for index, inner in enumerate(value):
                yield (keyword, index), inner
        elif keyword in ONE and isinstance(value, dict | bool):
            yield (keyword,), value


def pointed(root: Any, pointer: str) -> Any:
    """Return what a JSON pointer in a reference leads to, or None where it leads nowhere."""
    steps = steps_of(root, pointer)
    if steps is None:
        return None
    here = root
    for step in steps:
        here = here[step]
    return here


def steps_of(root: Any, pointer: str) -> tuple[str | int, ...] | None:
    """Return the steps of a JSON pointer in a reference, or None where it leads nowhere."""
    steps: list[str | int] = []
    here = root
    for part in pointer.split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(here, list) and name.isdecimal() and int(name) < len(here):
            steps.append(int(name))
            here = here[int(name)]
        elif isinstance(here, dict) and name in here:
            steps.append(name)
            here = here[name]
        else:
            return None
    return tuple(steps)
