"""What does a model see of a tool, and which digest stands for it?"""

import copy
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from apps.domain.canonical import digest
from apps.domain.schema_words import REFERENCES, pointed, subschemas

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
# Every number that stands in a repetition: `{2000}`, `{1,2000}`.
_REPETITION: Final = re.compile(r"(?<=[{,])[0-9]{4,9}(?=[,}])")


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
    seen: set[int] = set()
    waiting = [projected]
    while waiting:
        for _, inner, _ in subschemas(waiting.pop()):
            if not isinstance(inner, dict) or id(inner) in seen:
                continue
            seen.add(id(inner))
            _strip(inner)
            # A schema of others may lead to a place where no keyword expects a schema.
            waiting += _pointed(projected, inner)
    return projected


def _strip(schema: dict[str, Any]) -> None:
    for keyword in _LENGTH_BOUNDS:
        bound = schema.get(keyword)
        if isinstance(bound, int | float) and bound >= PROJECTED_BOUND:
            del schema[keyword]
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and any(
        int(number) >= PROJECTED_BOUND for number in _REPETITION.findall(pattern)
    ):
        del schema["pattern"]


def _pointed(root: Any, schema: dict[str, Any]) -> list[Any]:
    found = []
    for keyword in REFERENCES:
        target = schema.get(keyword)
        if isinstance(target, str) and target.startswith("#/"):
            place = pointed(root, target[1:])
            found += [place] if isinstance(place, dict) else []
    return found


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
