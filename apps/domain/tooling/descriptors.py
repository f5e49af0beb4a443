"""What does a model see of a tool, and which digest stands for it?"""

import copy
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from apps.domain.canonical import digest
from apps.domain.schema_words import subschemas

# A local grammar parser rejects the whole catalog, without a word, at bounds of this size.
PROJECTED_BOUND: Final = 2_000

_LENGTH_BOUNDS: Final = (
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
    "maxContains",
    "minContains",
)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What a model sees of one tool."""

    name: str
    description: str
    input_schema: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return the descriptor as a JSON object that shares nothing with it."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": copy.deepcopy(self.input_schema),
        }

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "Descriptor":
        """Rebuild a descriptor from what `as_dict` returned."""
        return cls(
            name=raw["name"],
            description=raw["description"],
            input_schema=copy.deepcopy(raw["input_schema"]),
        )

    @property
    def digest(self) -> str:
        """The digest of the whole descriptor."""
        return descriptor_digest(self)


def project_schema(schema: Any, *, without: Collection[str] = ()) -> Any:
    """Return a copy of a schema without its length bounds of 2,000 and more.

    This is the only place where a schema on its way to a model is changed. The declared bound
    stays in the specification and is enforced when the tool runs. Arguments named in `without`,
    which the deployment sets itself, leave the schema altogether.
    """
    projected = copy.deepcopy(schema)
    if without:
        _leave_out(projected, without)
    for _, inner, _ in subschemas(projected):
        if not isinstance(inner, dict):
            continue
        for keyword in _LENGTH_BOUNDS:
            bound = inner.get(keyword)
            if isinstance(bound, int | float) and bound >= PROJECTED_BOUND:
                del inner[keyword]
    return projected


def _leave_out(schema: dict[str, Any], names: Collection[str]) -> None:
    for name in names:
        schema.get("properties", {}).pop(name, None)
    if "required" in schema:
        schema["required"] = [name for name in schema["required"] if name not in names]
        if not schema["required"]:
            del schema["required"]


def descriptor_digest(descriptor: Descriptor) -> str:
    """Return the digest of one descriptor."""
    return digest(descriptor.as_dict())


def catalog_digest(descriptors: Iterable[Descriptor]) -> str:
    """Return the digest of a catalog; the order in which its descriptors came does not count."""
    return digest(sorted((item.name, descriptor_digest(item)) for item in descriptors))
