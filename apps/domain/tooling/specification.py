"""What is a tool? Its whole declaration, frozen."""

import json
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from apps.domain.canonical import digest
from apps.domain.schemas import SchemaError, compile_text
from apps.domain.tooling.descriptors import Descriptor, descriptor_digest, project_schema
from apps.domain.tooling.words import (
    Capability,
    CollaborationClass,
    Effect,
    EffectDomain,
    EffectKind,
    Family,
    Guard,
    RepeatPolicy,
    Risk,
    Visibility,
)

MAX_PAUSE_S: Final = 24 * 24 * 3600
DEFAULT_PAUSE_S: Final = 24 * 3600


@dataclass(frozen=True, slots=True)
class DeclaredEffect:
    """One side effect that a tool admits to, on one resource or on none in particular."""

    kind: EffectKind
    resource: str | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a tool comes from, and in which version."""

    source: str
    version: str


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long a tool that pauses waits when nothing is said, and how long it ever may."""

    default_s: int = DEFAULT_PAUSE_S
    most_s: int = MAX_PAUSE_S


@dataclass(frozen=True, slots=True)
class Specification:
    """What a tool is. Make one with `specify`, which checks it; it never changes afterwards."""

    name: str
    title: str
    description: str
    provenance: Provenance
    family: Family
    surface: str
    intent_hints: tuple[str, ...]
    input_text: bytes
    output_text: bytes
    dialect: str
    effect: Effect
    capability: Capability
    risk: Risk
    side_effects: tuple[DeclaredEffect, ...]
    parallel_safe: bool
    visibility: Visibility
    aliases: tuple[str, ...]
    guard: Guard
    effect_domain: EffectDomain
    collaboration: CollaborationClass
    previewed_argument: str | None
    argument_cap: int
    timeout_s: float
    repeat: RepeatPolicy
    retry_safe: bool
    outside_data: bool
    uses_connection: bool
    needs_approval_when_unattended: bool
    pauses: Pauses | None
    later: bool

    @property
    def source(self) -> str:
        """Where the tool comes from."""
        return self.provenance.source

    @property
    def version(self) -> str:
        """The version of the tool."""
        return self.provenance.version

    @property
    def input_schema(self) -> dict[str, Any]:
        """A copy of the input schema, the caller's own to change."""
        schema: dict[str, Any] = json.loads(self.input_text)
        return schema

    @property
    def output_schema(self) -> Any:
        """A copy of the output schema, the caller's own to change."""
        return json.loads(self.output_text)

    def argument_errors(self, arguments: Any) -> list[SchemaError]:
        """Return what is wrong with arguments by the declared input schema."""
        return self._errors(self.input_text, arguments)

    def output_errors(self, value: Any) -> list[SchemaError]:
        """Return what is wrong with a result by the declared output schema."""
        return self._errors(self.output_text, value)

    def descriptor(self) -> Descriptor:
        """Return what a model sees of this tool."""
        return Descriptor(self.name, self.description, project_schema(self.input_schema))

    @property
    def descriptor_digest(self) -> str:
        """The digest of the descriptor."""
        return _descriptor_digest(self.name, self.description, self.input_text)

    @property
    def digest(self) -> str:
        """The digest of the whole declaration, schemas included."""
        return digest(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Return the whole declaration as a JSON object that shares nothing with it."""
        raw = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        # Stored text becomes schemas again, and where a tool comes from stands at the top.
        del raw["input_text"], raw["output_text"], raw["provenance"]
        return raw | {
            "source": self.source,
            "version": self.version,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
        }

    def _errors(self, text: bytes, value: Any) -> list[SchemaError]:
        # What was held to the strict rules when it was declared is judged by them.
        strict = self.family is not Family.MCP
        return compile_text(text, dialect=self.dialect, assert_formats=strict).errors(value)


@lru_cache(maxsize=1024)
def _descriptor_digest(name: str, description: str, input_text: bytes) -> str:
    # Every decision compares this digest, and a descriptor follows from these three alone.
    return descriptor_digest(Descriptor(name, description, project_schema(json.loads(input_text))))


def _plain(value: Any) -> Any:
    """Return a field of a specification as JSON."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, DeclaredEffect):
        return {"kind": value.kind.value, "resource": value.resource}
    if isinstance(value, Pauses):
        return {"default_s": value.default_s, "most_s": value.most_s}
    return value.value if isinstance(value, StrEnum) else value
