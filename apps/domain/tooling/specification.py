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
    SideEffectClass,
    Visibility,
)

# A read may refresh what can be computed again; such a resource is named with this prefix.
DERIVED: Final = "derived:"
# What is started inside the turn and ends with it does not outlive it; its own calls are decided
# one by one. Such a resource is named with this prefix.
WITHIN_TURN: Final = "turn:"
MAX_PAUSE_S: Final = 24 * 24 * 3600
DEFAULT_PAUSE_S: Final = 24 * 3600

_CLASSES: Final = {
    EffectKind.READS: SideEffectClass.READ,
    EffectKind.NETWORK: SideEffectClass.READ,
    EffectKind.WRITES: SideEffectClass.MUTATION,
    EffectKind.DELETES: SideEffectClass.MUTATION,
    EffectKind.SPAWNS_RUN: SideEffectClass.ORCHESTRATION,
    EffectKind.EMITS_EVENT: SideEffectClass.ORCHESTRATION,
    EffectKind.EXTERNAL_SIDE_EFFECT: SideEffectClass.EXTERNAL,
    EffectKind.SENSITIVE_DATA_EGRESS: SideEffectClass.EXTERNAL,
}
# Of several effects the gravest one gives its class.
_GRAVITY: Final = (
    SideEffectClass.EXTERNAL,
    SideEffectClass.ORCHESTRATION,
    SideEffectClass.MUTATION,
    SideEffectClass.DERIVED,
    SideEffectClass.READ,
)


@dataclass(frozen=True, slots=True)
class DeclaredEffect:
    """One side effect that a tool admits to, on one resource or on none in particular."""

    kind: EffectKind
    resource: str | None = None

    @property
    def refreshes_derived_state(self) -> bool:
        """Whether only what can be computed again is written."""
        return self.kind is EffectKind.WRITES and (self.resource or "").startswith(DERIVED)

    @property
    def ends_with_the_turn(self) -> bool:
        """Whether what is started ends together with the turn that started it."""
        inside = (self.resource or "").startswith(WITHIN_TURN)
        return self.kind is EffectKind.SPAWNS_RUN and inside

    @property
    def side_effect_class(self) -> SideEffectClass:
        """The kind of trace that this effect leaves."""
        return SideEffectClass.DERIVED if self.refreshes_derived_state else _CLASSES[self.kind]


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
    targets_argument: str | None
    argument_cap: int
    timeout_s: float
    repeat: RepeatPolicy
    retry_safe: bool
    outside_data: bool
    uses_connection: bool
    needs_approval_when_unattended: bool
    pauses: Pauses | None
    later: bool
    reaches: tuple[str, ...] = ()
    """The hosts outside that its calls may reach, as they are shown to whoever decides."""

    @property
    def source(self) -> str:
        """Where the tool comes from."""
        return self.provenance.source

    @property
    def version(self) -> str:
        """The version of the tool."""
        return self.provenance.version

    @property
    def side_effect_class(self) -> SideEffectClass:
        """The gravest trace that the tool admits to; a change that says nothing is unknown."""
        admitted = {declared.side_effect_class for declared in self.side_effects}
        if self.effect is not Effect.READ and not admitted - {SideEffectClass.READ}:
            return SideEffectClass.UNKNOWN
        return next((word for word in _GRAVITY if word in admitted), SideEffectClass.NONE)

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
        return _digest(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the whole declaration as a JSON object that shares nothing with it."""
        raw = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        # Stored text becomes schemas again, and where a tool comes from stands at the top.
        del raw["input_text"], raw["output_text"], raw["provenance"]
        return raw | {
            "source": self.source,
            "version": self.version,
            "side_effect_class": self.side_effect_class.value,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
        }

    def _errors(self, text: bytes, value: Any) -> list[SchemaError]:
        # What was held to the strict rules when it was declared is judged by them.
        strict = self.family is not Family.MCP
        return compile_text(text, dialect=self.dialect, strict=strict).errors(value)


@lru_cache(maxsize=1024)
def _digest(spec: Specification) -> str:
    # Every decision compares it, and a specification never changes.
    return digest(spec.as_dict())


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
