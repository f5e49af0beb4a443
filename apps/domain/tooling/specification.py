"""What is a tool, and when is its declaration honest enough to be registered?"""

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, TypeVar

from apps.domain.canonical import canonical_json, digest
from apps.domain.schemas import BadSchema, SchemaError, check_schema, compile_text
from apps.domain.tooling.descriptors import Descriptor, descriptor_digest, project_schema
from apps.domain.tooling.words import (
    Capability,
    CollaborationClass,
    Effect,
    EffectDomain,
    EffectKind,
    Guard,
    RepeatPolicy,
    Risk,
    Visibility,
)
from apps.domain.words import shown

Word = TypeVar("Word", bound=StrEnum)

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_DESCRIPTION_UNITS: Final = 4_000
MAX_TITLE: Final = 120
MAX_SOURCE: Final = 200
MAX_DECLARED_EFFECTS: Final = 32
MAX_RESOURCE: Final = 200
DEFAULT_ARGUMENT_CAP: Final = 64 * 1024
MAX_ARGUMENT_CAP: Final = 8 * 1024 * 1024
DEFAULT_TIMEOUT_S: Final = 30.0
MAX_TIMEOUT_S: Final = 240.0
# A read may refresh what can be computed again; such a resource is named with this prefix.
DERIVED: Final = "derived:"

_NEVER_A_READ: Final = frozenset(
    {
        EffectKind.WRITES,
        EffectKind.DELETES,
        EffectKind.SPAWNS_RUN,
        EffectKind.EMITS_EVENT,
        EffectKind.EXTERNAL_SIDE_EFFECT,
        EffectKind.SENSITIVE_DATA_EGRESS,
    }
)
_DOMAINS: Final = {
    Guard.MEMBER_STORE: {EffectDomain.OURS, EffectDomain.CHECKPOINTED},
    Guard.ISOLATED: {EffectDomain.CHECKPOINTED, EffectDomain.EXTERNAL},
    Guard.EXTERNAL: {EffectDomain.EXTERNAL},
}
_READ_CLASSES: Final = frozenset(
    {
        CollaborationClass.AUDIENCE_READ,
        CollaborationClass.ACTOR_BOUND_READ,
        CollaborationClass.ACTOR_PRIVATE_READ,
    }
)


class BadSpecification(ValueError):
    """A declaration that may not be registered, with the field and the reason."""

    def __init__(self, field: str, message: str, rule: str = "specification") -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message
        self.rule = rule


@dataclass(frozen=True, slots=True)
class DeclaredEffect:
    """One side effect that a tool admits to, on one resource or on none in particular."""

    kind: EffectKind
    resource: str | None = None


@dataclass(frozen=True, slots=True)
class Specification:
    """What a tool is. Make one with `specify`, which checks it; it never changes afterwards."""

    name: str
    title: str
    description: str
    version: str
    input_text: bytes
    output_text: bytes
    effect: Effect
    capability: Capability
    risk: Risk
    side_effects: tuple[DeclaredEffect, ...]
    parallel_safe: bool
    visibility: Visibility
    aliases: tuple[str, ...]
    source: str
    guard: Guard
    effect_domain: EffectDomain
    collaboration: CollaborationClass
    previewed_argument: str | None
    argument_cap: int
    timeout_s: float
    repeat: RepeatPolicy
    outside_data: bool
    later: bool

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
        return compile_text(self.input_text).errors(arguments)

    def output_errors(self, value: Any) -> list[SchemaError]:
        """Return what is wrong with a result by the declared output schema."""
        return compile_text(self.output_text).errors(value)

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
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "version": self.version,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "effect": self.effect.value,
            "capability": self.capability.value,
            "risk": self.risk.value,
            "side_effects": [
                {"kind": effect.kind.value, "resource": effect.resource}
                for effect in self.side_effects
            ],
            "parallel_safe": self.parallel_safe,
            "visibility": self.visibility.value,
            "aliases": list(self.aliases),
            "source": self.source,
            "guard": self.guard.value,
            "effect_domain": self.effect_domain.value,
            "collaboration": self.collaboration.value,
            "previewed_argument": self.previewed_argument,
            "argument_cap": self.argument_cap,
            "timeout_s": self.timeout_s,
            "repeat": self.repeat.value,
            "outside_data": self.outside_data,
            "later": self.later,
        }


def specify(
    *,
    name: str,
    title: str,
    description: str,
    input_schema: dict[str, Any],
    effect: Effect,
    capability: Capability,
    guard: Guard,
    effect_domain: EffectDomain,
    collaboration: CollaborationClass,
    output_schema: dict[str, Any] | bool = True,
    version: str = "1",
    risk: Risk = Risk.LOW,
    side_effects: tuple[DeclaredEffect, ...] = (),
    parallel_safe: bool = False,
    visibility: Visibility = Visibility.DIRECT,
    aliases: tuple[str, ...] = (),
    source: str = "kaizen",
    previewed_argument: str | None = None,
    argument_cap: int = DEFAULT_ARGUMENT_CAP,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    repeat: RepeatPolicy = RepeatPolicy.RUN,
    outside_data: bool = False,
    later: bool = False,
) -> Specification:
    """Return a checked specification, or raise `BadSpecification` for the first false word."""
    _check_schemas(input_schema, output_schema)
    made = Specification(
        name=name,
        title=title,
        description=description,
        version=version,
        input_text=canonical_json(input_schema),
        output_text=canonical_json(output_schema),
        effect=_member(Effect, effect, "effect"),
        capability=_member(Capability, capability, "capability"),
        risk=_member(Risk, risk, "risk"),
        side_effects=tuple(side_effects),
        parallel_safe=parallel_safe,
        visibility=_member(Visibility, visibility, "visibility"),
        aliases=tuple(aliases),
        source=source,
        guard=_member(Guard, guard, "guard"),
        effect_domain=_member(EffectDomain, effect_domain, "effect_domain"),
        collaboration=_member(CollaborationClass, collaboration, "collaboration"),
        previewed_argument=previewed_argument,
        argument_cap=argument_cap,
        timeout_s=timeout_s,
        repeat=_member(RepeatPolicy, repeat, "repeat"),
        outside_data=outside_data,
        later=later,
    )
    _check_words(made)
    _check_bounds(made)
    _check_effects(made)
    _check_places(made)
    _check_preview(made, input_schema)
    return made


@lru_cache(maxsize=1024)
def _descriptor_digest(name: str, description: str, input_text: bytes) -> str:
    # Every decision compares this digest, and a descriptor follows from these three alone.
    return descriptor_digest(Descriptor(name, description, project_schema(json.loads(input_text))))


def _member(kind: type[Word], value: Any, field: str) -> Word:
    try:
        return kind(value)
    except ValueError:
        raise BadSpecification(
            field, f"{shown(str(value))} is not one of the known words."
        ) from None


def _check_schemas(input_schema: Any, output_schema: Any) -> None:
    for field, schema, root_object in (
        ("input_schema", input_schema, True),
        ("output_schema", output_schema, False),
    ):
        try:
            check_schema(schema, root_object=root_object)
        except BadSchema as refusal:
            raise BadSpecification(
                f"{field}{refusal.path}", refusal.message, refusal.rule
            ) from None


def _check_words(spec: Specification) -> None:
    for field, name in (("name", spec.name), *(("aliases", alias) for alias in spec.aliases)):
        if not NAME.fullmatch(name):
            raise BadSpecification(
                field, f"{shown(name)} is not 1 to 64 letters, digits, underscores and hyphens."
            )
    if len({spec.name, *spec.aliases}) != 1 + len(spec.aliases):
        raise BadSpecification("aliases", "A name occurs twice.")
    if not spec.description.strip():
        raise BadSpecification("description", "It is blank.")
    if len(spec.description.encode("utf-16-le", "surrogatepass")) // 2 > MAX_DESCRIPTION_UNITS:
        raise BadSpecification(
            "description", f"It is longer than {MAX_DESCRIPTION_UNITS:,} UTF-16 units."
        )
    for field, text, limit in (
        ("title", spec.title, MAX_TITLE),
        ("version", spec.version, MAX_TITLE),
        ("source", spec.source, MAX_SOURCE),
    ):
        if not text.strip() or len(text) > limit or not text.isprintable():
            raise BadSpecification(field, f"It is not one line of 1 to {limit} characters.")


def _check_bounds(spec: Specification) -> None:
    if not 2 <= spec.argument_cap <= MAX_ARGUMENT_CAP:
        raise BadSpecification(
            "argument_cap", f"It is not between 2 and {MAX_ARGUMENT_CAP:,} bytes."
        )
    if not 0 < spec.timeout_s <= MAX_TIMEOUT_S:
        raise BadSpecification("timeout_s", f"It is not above 0 and at most {MAX_TIMEOUT_S:g} s.")
    if len(spec.side_effects) > MAX_DECLARED_EFFECTS:
        raise BadSpecification("side_effects", f"There are more than {MAX_DECLARED_EFFECTS}.")
    for declared in spec.side_effects:
        resource = declared.resource
        if resource is not None and not 0 < len(resource) <= MAX_RESOURCE:
            raise BadSpecification("side_effects", "A resource is empty or too long.")


def _check_effects(spec: Specification) -> None:
    refreshes = [item for item in spec.side_effects if _refreshes_derived_state(item)]
    harms = [item for item in spec.side_effects if item.kind in _NEVER_A_READ]
    if spec.effect is Effect.READ:
        for declared in harms:
            if declared not in refreshes:
                raise BadSpecification("effect", f"A read does not declare {declared.kind}.")
        if spec.repeat is RepeatPolicy.REDUNDANT:
            raise BadSpecification("repeat", "Only a write can be redundant.")
    elif spec.capability.reads_only:
        raise BadSpecification(
            "capability", f"{spec.capability} covers reading, and the tool is a {spec.effect}."
        )
    if spec.parallel_safe and (spec.effect is not Effect.READ or harms):
        raise BadSpecification(
            "parallel_safe", "Only a read that changes nothing is parallel-safe."
        )


def _refreshes_derived_state(declared: DeclaredEffect) -> bool:
    return declared.kind is EffectKind.WRITES and (declared.resource or "").startswith(DERIVED)


def _check_places(spec: Specification) -> None:
    if spec.effect_domain not in _DOMAINS[spec.guard]:
        raise BadSpecification(
            "effect_domain", f"The guard {spec.guard} does not cover {spec.effect_domain}."
        )
    if spec.effect_domain is EffectDomain.EXTERNAL and not spec.later:
        raise BadSpecification("later", "What reaches outside may wait, so it runs later.")
    if spec.collaboration in _READ_CLASSES and spec.effect is not Effect.READ:
        raise BadSpecification("collaboration", f"{spec.collaboration} is a class of reads.")
    if spec.collaboration is CollaborationClass.ACTOR_BOUND_WRITE and spec.effect is Effect.READ:
        raise BadSpecification("collaboration", f"{spec.collaboration} is a class of writes.")


def _check_preview(spec: Specification, input_schema: dict[str, Any]) -> None:
    if spec.previewed_argument is None:
        return
    properties = input_schema.get("properties", {})
    declared = properties.get(spec.previewed_argument)
    if not isinstance(declared, dict) or declared.get("type") != "string":
        raise BadSpecification(
            "previewed_argument", "It does not name a string argument of the input schema."
        )
