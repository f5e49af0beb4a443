"""Which arguments of a tool has the deployment pinned, and what follows from that?

A pinned argument leaves the descriptor, so that a model knows nothing of it. A proposal that names
one is refused, also where it guessed the very value: taking the guess would tell that it was right.
Before anything is judged or digested, the pinned values are merged in.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apps.domain.canonical import canonical_json, digest
from apps.domain.schemas import BadSchema, SchemaError, check_schema, compile_schema
from apps.domain.tooling.descriptors import project_schema
from apps.domain.tooling.specification import Specification
from apps.domain.words import shown

MAX_PINNED_BYTES: Final = 8 * 1024
MAX_PINNED: Final = 16

# Where one of these stands at the root, an argument cannot be taken out without changing what the
# rest means.
_COUNTS_ARGUMENTS: Final = frozenset(
    ["$ref", "$dynamicRef", "$recursiveRef", "maxProperties", "minProperties", "propertyNames"]
)
# These may say a name at the root without tying other arguments to it.
_HARMLESS: Final = frozenset(
    ["$comment", "$defs", "$id", "$schema", "definitions", "properties", "required", "type"]
)


class BadPin(ValueError):
    """Arguments that cannot be pinned: which one, and why."""

    def __init__(self, argument: str, message: str) -> None:
        super().__init__(message)
        self.argument = argument
        self.message = message


@dataclass(frozen=True, slots=True)
class Pins:
    """The values of a tool's pinned arguments, as canonical text that nobody can change."""

    text: bytes = b"{}"

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Pins":
        """Freeze these values."""
        return cls(canonical_json(dict(values)))

    @property
    def values(self) -> dict[str, Any]:
        """A copy of the values by argument."""
        values: dict[str, Any] = json.loads(self.text)
        return values

    @property
    def names(self) -> frozenset[str]:
        """The pinned arguments."""
        return frozenset(self.values)

    def __bool__(self) -> bool:
        return self.text != b"{}"

    def named_in(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return the pinned arguments that a proposal names although they are none of its own."""
        return sorted(self.names & arguments.keys()) if self else []

    def merged(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments with the pinned values in them."""
        return {**arguments, **self.values} if self else dict(arguments)

    def without(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments as a proposal named them."""
        names = self.names
        return {name: value for name, value in arguments.items() if name not in names}

    def digest_of(self, spec: Specification) -> str:
        """Return the digest of a tool's whole contract, what is pinned included."""
        if not self:
            return spec.digest
        return digest({"declaration": spec.digest, "pinned": digest(self.values)})


def refusal_of(names: Iterable[str]) -> str:
    """Say that a proposal named what is not its own to set."""
    words = ", ".join(shown(name) for name in sorted(names))
    return f"The deployment sets {words} itself. Leave it out."


def check_pins(spec: Specification, pins: Pins) -> None:
    """Refuse to pin what the tool has not, what it would not take, or what cannot be hidden."""
    values = pins.values
    if len(values) > MAX_PINNED:
        raise BadPin("", f"At most {MAX_PINNED} arguments of a tool can be pinned.")
    if len(pins.text) > MAX_PINNED_BYTES:
        raise BadPin("", f"Pinned values have at most {MAX_PINNED_BYTES:,} bytes together.")
    schema = spec.input_schema
    declared = schema.get("properties", {})
    for name in sorted(values):
        if name not in declared:
            raise BadPin(name, f"The tool has no argument {shown(name)}.")
        if refused := why_not_pinned(spec, name):
            raise BadPin(name, refused)
    _check_hidden(spec, pins.names)
    if errors := _value_errors(schema, spec.dialect, values):
        raise BadPin(_first_name(errors[0], values), f"The value is not valid: {errors[0]}")


def why_not_pinned(spec: Specification, name: str) -> str:
    """Say why an argument can be pinned to no value at all, or nothing where it can."""
    if name == spec.previewed_argument:
        return f"{shown(name)} is shown while it is written, so a model writes it."
    if word := _ties(spec.input_schema, name):
        return f"The schema ties {shown(name)} to other arguments by {shown(word)}."
    return ""


def _ties(schema: Mapping[str, Any], name: str) -> str:
    """Return the keyword at the root by which an argument cannot be taken out alone, if any."""
    for keyword, value in schema.items():
        if keyword in _COUNTS_ARGUMENTS:
            return keyword
        if keyword not in _HARMLESS and _mentions(value, name):
            return keyword
    return ""


def _mentions(value: Any, name: str) -> bool:
    if isinstance(value, Mapping):
        return name in value or any(_mentions(inner, name) for inner in value.values())
    if isinstance(value, list):
        return any(_mentions(inner, name) for inner in value)
    return bool(value == name)


def _check_hidden(spec: Specification, names: frozenset[str]) -> None:
    projected = project_schema(spec.input_schema, without=names)
    try:
        check_schema(projected, dialect=spec.dialect, strict_own=False, root_object=True)
    except BadSchema as broken:
        raise BadPin(
            min(names, default=""), f"Without it the schema no longer holds: {broken.message}"
        ) from None


def _value_errors(
    schema: Mapping[str, Any], dialect: str, values: Mapping[str, Any]
) -> list[SchemaError]:
    # What the other arguments must be is judged at every call; here only these values are.
    kept = {key: value for key, value in schema.items() if key not in ("required", *_CONDITIONS)}
    return compile_schema(kept, dialect=dialect).errors(dict(values))


_CONDITIONS: Final = (
    "allOf",
    "anyOf",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "not",
    "oneOf",
    "then",
)


def _first_name(error: SchemaError, values: Mapping[str, Any]) -> str:
    return next((name for name in sorted(values) if name in str(error)), min(values))
