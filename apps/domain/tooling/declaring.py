"""When is a tool's declaration honest enough to be registered?"""

import re
from enum import StrEnum
from typing import Any, Final, TypeVar

from apps.domain.canonical import NotCanonical, canonical_json
from apps.domain.schemas import (
    DIALECTS,
    DRAFT_2020_12,
    MAX_DECLARATION_BYTES,
    MAX_SCHEMA_BYTES,
    BadSchema,
    check_schema,
)
from apps.domain.tooling.specification import (
    MAX_PAUSE_S,
    DeclaredEffect,
    Pauses,
    Provenance,
    Specification,
)
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
from apps.domain.words import shown

Word = TypeVar("Word", bound=StrEnum)
Item = TypeVar("Item")

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
SURFACE: Final = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")
MAX_DESCRIPTION_UNITS: Final = 4_000
MAX_TITLE: Final = 120
MAX_SOURCE: Final = 200
MAX_SURFACE: Final = 64
MAX_DECLARED_EFFECTS: Final = 32
MAX_RESOURCE: Final = 200
MAX_ALIASES: Final = 16
MAX_INTENT_HINTS: Final = 16
NO_ARGUMENTS: Final = {"type": "object", "additionalProperties": False}
DEFAULT_ARGUMENT_CAP: Final = 64 * 1024
MAX_ARGUMENT_CAP: Final = 8 * 1024 * 1024
DEFAULT_TIMEOUT_S: Final = 30.0
MAX_TIMEOUT_S: Final = 240.0

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
# Only what is part of the program may have a schema as large as a whole declaration.
_SCHEMA_BYTES: Final = {Family.KAIZEN: MAX_DECLARATION_BYTES}
_TYPES: Final[dict[Any, str]] = {
    str: "name title description source version surface dialect",
    int: "argument_cap",
    int | float: "timeout_s",
    bool: (
        "parallel_safe retry_safe outside_data uses_connection needs_approval_when_unattended later"
    ),
    tuple: "intent_hints side_effects aliases reaches",
    bytes: "input_text output_text",
    Family: "family",
    Effect: "effect",
    Capability: "capability",
    Risk: "risk",
    Visibility: "visibility",
    Guard: "guard",
    EffectDomain: "effect_domain",
    CollaborationClass: "collaboration",
    RepeatPolicy: "repeat",
}


class BadSpecification(ValueError):
    """A declaration that may not be registered, with the field and the reason."""

    def __init__(self, field: str, message: str, rule: str = "specification") -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message
        self.rule = rule


def specify(
    *,
    name: str,
    title: str,
    description: str,
    effect: Effect,
    capability: Capability,
    guard: Guard,
    effect_domain: EffectDomain,
    collaboration: CollaborationClass,
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | bool = True,
    version: str = "1",
    risk: Risk = Risk.LOW,
    side_effects: tuple[DeclaredEffect, ...] = (),
    parallel_safe: bool = False,
    visibility: Visibility = Visibility.DIRECT,
    aliases: tuple[str, ...] = (),
    source: str = "kaizen",
    family: Family = Family.KAIZEN,
    surface: str = "",
    intent_hints: tuple[str, ...] = (),
    dialect: str = DRAFT_2020_12,
    previewed_argument: str | None = None,
    targets_argument: str | None = None,
    argument_cap: int = DEFAULT_ARGUMENT_CAP,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    repeat: RepeatPolicy = RepeatPolicy.RUN,
    retry_safe: bool = False,
    outside_data: bool = False,
    uses_connection: bool = False,
    needs_approval_when_unattended: bool = False,
    pauses: Pauses | None = None,
    later: bool = False,
    reaches: tuple[str, ...] = (),
) -> Specification:
    """Return a checked specification, or raise `BadSpecification` for the first false word.

    Where no surface is named it is the noun of the capability: `artifacts`, `agents`, `docs`.
    Where no input schema is given the tool takes the empty object only.
    """
    family = _member(Family, family, "family")
    capability = _member(Capability, capability, "capability")
    made = Specification(
        name=name,
        title=title,
        description=description,
        provenance=Provenance(source, version),
        family=family,
        surface=surface or capability.partition(".")[0],
        intent_hints=_items(intent_hints, str, "intent_hints"),
        input_text=_text(NO_ARGUMENTS if input_schema is None else input_schema, "input_schema"),
        output_text=_text(output_schema, "output_schema"),
        dialect=dialect,
        effect=_member(Effect, effect, "effect"),
        capability=capability,
        risk=_member(Risk, risk, "risk"),
        side_effects=_items(side_effects, DeclaredEffect, "side_effects"),
        parallel_safe=parallel_safe,
        visibility=_member(Visibility, visibility, "visibility"),
        aliases=_items(aliases, str, "aliases"),
        guard=_member(Guard, guard, "guard"),
        effect_domain=_member(EffectDomain, effect_domain, "effect_domain"),
        collaboration=_member(CollaborationClass, collaboration, "collaboration"),
        previewed_argument=previewed_argument,
        targets_argument=targets_argument,
        argument_cap=argument_cap,
        timeout_s=timeout_s,
        repeat=_member(RepeatPolicy, repeat, "repeat"),
        retry_safe=retry_safe,
        outside_data=outside_data,
        uses_connection=uses_connection,
        needs_approval_when_unattended=needs_approval_when_unattended,
        pauses=pauses,
        later=later,
        reaches=_items(reaches, str, "reaches"),
    )
    check_specification(made)
    return made


def check_specification(spec: Specification) -> None:
    """Refuse a specification that says a false word, however it was made."""
    _check_types(spec)
    _check_schemas(spec)
    _check_words(spec)
    _check_lines(spec)
    _check_bounds(spec)
    _check_effects(spec)
    _check_places(spec)
    _check_waiting(spec)
    _check_preview(spec)
    _check_targets(spec)


def _member(kind: type[Word], value: Any, field: str) -> Word:
    try:
        return kind(value)
    except ValueError:
        raise BadSpecification(
            field, f"{shown(str(value))} is not one of the known words."
        ) from None


def _items(given: Any, kind: type[Item], field: str) -> tuple[Item, ...]:
    # A text is a sequence too, and would be taken apart into letters.
    if not isinstance(given, list | tuple) or not all(isinstance(item, kind) for item in given):
        raise BadSpecification(field, "It is not a list of the right kind.")
    return tuple(given)


def _text(schema: Any, field: str) -> bytes:
    try:
        return canonical_json(schema)
    except NotCanonical as refusal:
        raise BadSpecification(field, f"The schema is not JSON: {refusal}", "not_json") from None


def _check_schemas(spec: Specification) -> None:
    outside = spec.family is Family.MCP
    if spec.dialect not in DIALECTS or (spec.dialect != DRAFT_2020_12 and not outside):
        raise BadSpecification("dialect", "Only tools of MCP servers choose an older dialect.")
    for field, schema, root_object in (
        ("input_schema", spec.input_schema, True),
        ("output_schema", spec.output_schema, False),
    ):
        try:
            check_schema(
                schema,
                dialect=spec.dialect,
                strict_own=not outside,
                root_object=root_object,
                most_bytes=MAX_DECLARATION_BYTES
                if spec.family is Family.KAIZEN
                else MAX_SCHEMA_BYTES,
            )
        except BadSchema as refusal:
            raise BadSpecification(
                f"{field}{refusal.path}", refusal.message, refusal.rule
            ) from None


def _check_types(spec: Specification) -> None:
    for kind, names in _TYPES.items():
        for field in names.split():
            value = getattr(spec, field)
            # A yes or no is a number to Python, and not to anybody who reads a declaration.
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                raise BadSpecification(field, "It is not of the right kind.")
    for field in ("previewed_argument", "targets_argument"):
        if not isinstance(getattr(spec, field), str | None):
            raise BadSpecification(field, "It is not of the right kind.")


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


def _check_lines(spec: Specification) -> None:
    if not SURFACE.fullmatch(spec.surface) or len(spec.surface) > MAX_SURFACE:
        raise BadSpecification("surface", f"{shown(spec.surface)} is not a lower-case word.")
    for field, given, most in (
        ("aliases", spec.aliases, MAX_ALIASES),
        ("intent_hints", spec.intent_hints, MAX_INTENT_HINTS),
    ):
        if len(given) > most:
            raise BadSpecification(field, f"There are more than {most}.")
    for field, text, limit in (
        ("title", spec.title, MAX_TITLE),
        ("version", spec.version, MAX_TITLE),
        ("source", spec.source, MAX_SOURCE),
        *(("intent_hints", hint, MAX_TITLE) for hint in spec.intent_hints),
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
        if not isinstance(declared.kind, EffectKind):
            raise BadSpecification("side_effects", "A kind is not one of the known words.")
        if resource is not None and not 0 < len(resource) <= MAX_RESOURCE:
            raise BadSpecification("side_effects", "A resource is empty or too long.")


def _check_effects(spec: Specification) -> None:
    harms = [item for item in spec.side_effects if item.kind in _NEVER_A_READ]
    if spec.effect is Effect.READ:
        for declared in harms:
            if not declared.refreshes_derived_state and not declared.ends_with_the_turn:
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


def _check_places(spec: Specification) -> None:
    if spec.effect_domain not in _DOMAINS[spec.guard]:
        raise BadSpecification(
            "effect_domain", f"The guard {spec.guard} does not cover {spec.effect_domain}."
        )
    if spec.reaches and spec.effect_domain is EffectDomain.OURS:
        raise BadSpecification("reaches", "What commits with its settlement reaches nobody.")
    if spec.effect_domain is EffectDomain.EXTERNAL and not spec.later:
        raise BadSpecification("later", "What reaches outside may wait, so it runs later.")
    if spec.collaboration in _READ_CLASSES and spec.effect is not Effect.READ:
        raise BadSpecification("collaboration", f"{spec.collaboration} is a class of reads.")
    if spec.collaboration is CollaborationClass.ACTOR_BOUND_WRITE and spec.effect is Effect.READ:
        raise BadSpecification("collaboration", f"{spec.collaboration} is a class of writes.")


def _check_waiting(spec: Specification) -> None:
    if spec.retry_safe and spec.effect is Effect.SENSITIVE:
        raise BadSpecification("retry_safe", "A sensitive tool is never tried again by itself.")
    if spec.uses_connection and spec.guard is not Guard.EXTERNAL:
        raise BadSpecification("uses_connection", "A connection leads outside, and the guard not.")
    if spec.parallel_safe and (spec.pauses is not None or spec.uses_connection):
        raise BadSpecification("parallel_safe", "What may wait for others runs on its own.")
    if spec.pauses is None:
        return
    if spec.effect_domain is EffectDomain.OURS:
        raise BadSpecification("pauses", "What commits with its settlement cannot wait.")
    if not spec.later:
        raise BadSpecification("pauses", "What pauses may wait for days, so it runs later.")
    if not isinstance(spec.pauses, Pauses):
        raise BadSpecification("pauses", "It is not of the right kind.")
    if not 0 < spec.pauses.default_s <= spec.pauses.most_s <= MAX_PAUSE_S:
        raise BadSpecification(
            "pauses", f"The pauses are not in order, or longer than {MAX_PAUSE_S:,} s."
        )


def _check_preview(spec: Specification) -> None:
    if spec.previewed_argument is None:
        return
    properties = spec.input_schema.get("properties", {})
    declared = properties.get(spec.previewed_argument)
    if not isinstance(declared, dict) or declared.get("type") != "string":
        raise BadSpecification(
            "previewed_argument", "It does not name a string argument of the input schema."
        )


def _check_targets(spec: Specification) -> None:
    if spec.targets_argument is None:
        return
    schema = spec.input_schema
    declared = schema.get("properties", {}).get(spec.targets_argument)
    items = declared.get("items") if isinstance(declared, dict) else None
    if not isinstance(items, dict) or items.get("type") != "string":
        raise BadSpecification(
            "targets_argument", "It does not name a list of names in the input schema."
        )
    if spec.targets_argument not in schema.get("required", []):
        # Whoever announces the files must never have to guess them.
        raise BadSpecification("targets_argument", "What names the files to come is required.")
