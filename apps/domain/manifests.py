"""What does a package promise: which tools, with which definitions, and under which digest?

A manifest is read whole before any of it is believed. Every field is typed, what we do not
honour yet is refused by name, and each tool is turned into the specification under which the
boundary will judge its calls, so that nothing can be admitted that could not be registered.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from apps.domain.canonical import NotCanonical, canonical_json, digest_bytes
from apps.domain.kindgi import DEFINITION_SCHEMA, contradictions, unsupported
from apps.domain.packagetree import tree_problems
from apps.domain.problems import MAX_PROBLEMS, Problem, Problems, Rejected, dotted
from apps.domain.schemas import compile_schema
from apps.domain.tooling import (
    BadSpecification,
    Capability,
    CollaborationClass,
    DeclaredEffect,
    Effect,
    EffectDomain,
    EffectKind,
    Family,
    Guard,
    Risk,
    Specification,
    specify,
)
from apps.domain.words import shown

MAX_MANIFEST_BYTES: Final = 512 * 1024
MAX_METADATA_BYTES: Final = 16 * 1024
MAX_TOOLS: Final = 32
FORMATS: Final = ("python",)
COLLABORATION_CLASSES: Final = (
    "actor_bound_read",
    "actor_private_read",
    "actor_bound_write",
    "unknown",
)
TOOL_PREFIX: Final = "pkg_"

_SEMVER: Final = (
    r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
    r"(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$"
)
_MODULE_AND_FUNCTION: Final = (
    r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"
)
_MANIFEST_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {
            "type": "string",
            "pattern": "^[a-z0-9]+([._-][a-z0-9]+)*$",
            "maxLength": 64,
        },
        "version": {"type": "string", "pattern": _SEMVER, "maxLength": 64},
        "ref": {"type": "string", "maxLength": 130},
        "format": {"type": "string"},
        "posture": True,
        "skills": True,
        "description": {"type": "string", "maxLength": 4000},
        "tools": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_TOOLS,
            "items": {
                "type": "object",
                "properties": {
                    "definition": DEFINITION_SCHEMA,
                    "collaboration_class": {"enum": list(COLLABORATION_CLASSES)},
                    "entry": {
                        "type": "string",
                        "pattern": _MODULE_AND_FUNCTION,
                        "maxLength": 200,
                    },
                },
                # A tool that is silent about rooms stays out of them.
                "required": ["definition", "entry"],
                "additionalProperties": False,
            },
        },
        "metadata": {"type": "object"},
    },
    "required": ["name", "version", "ref", "format", "tools"],
    "additionalProperties": False,
}
# What a read cannot declare; `network` is only a way to read.
_READ_EFFECTS: Final = frozenset({EffectKind.READS, EffectKind.NETWORK})
# Which field of a definition a specification's field came from.
_DEFINITION_FIELDS: Final = {
    "input_schema": "input",
    "output_schema": "output",
    "description": "description",
    "version": "version",
    "side_effects": "effects",
    "effect": "effects",
}


class BadManifest(Rejected):
    """A manifest that no package may have."""


@dataclass(frozen=True, slots=True)
class PackageTool:
    """One tool that a package promises, and where its code enters."""

    id: str
    tool_name: str
    ref: str
    entry: str
    collaboration: CollaborationClass
    definition_text: bytes

    @property
    def definition(self) -> dict[str, Any]:
        """A copy of the tool's definition."""
        definition: dict[str, Any] = json.loads(self.definition_text)
        return definition

    @property
    def mutating(self) -> bool:
        """Whether the tool changes something; a definition that is silent does."""
        return self.definition.get("mutating") is not False

    @property
    def limits(self) -> dict[str, int] | None:
        """What the tool asks to be held to (memMB and cpuMs), or nothing where it is silent."""
        return self.definition.get("limits")

    @property
    def module(self) -> str:
        """The module in which the tool's function lies."""
        return self.entry.partition(":")[0]

    @property
    def function(self) -> str:
        """The name of the tool's function in its module."""
        return self.entry.partition(":")[2]

    def specification(self) -> Specification:
        """Return the specification under which the boundary judges the tool's calls."""
        definition = self.definition
        effects = tuple(
            DeclaredEffect(EffectKind(item["kind"]), item.get("resource"))
            for item in definition.get("effects", [])
        )
        effect = _effect_of(self.mutating, effects)
        return specify(
            name=self.tool_name,
            title=_title_of(self.id),
            description=definition["description"],
            version=definition["version"],
            input_schema=definition["input"],
            output_schema=definition["output"],
            effect=effect,
            capability=Capability.PACKAGES_CALL,
            risk=_RISKS[effect],
            side_effects=effects,
            parallel_safe=effect is Effect.READ,
            source=f"package:{self.ref}",
            family=Family.PACKAGES,
            surface=self.ref.partition("@")[0],
            guard=Guard.EXTERNAL,
            effect_domain=EffectDomain.EXTERNAL,
            collaboration=self.collaboration,
            outside_data=definition.get("resultIsOutsideData") is True,
            needs_approval_when_unattended=definition.get("needsApprovalWhenUnattended") is True,
            later=True,
        )


@dataclass(frozen=True, slots=True)
class Manifest:
    """A package's promise, read and checked."""

    name: str
    version: str
    ref: str
    format: str
    description: str
    tools: tuple[PackageTool, ...]
    text: bytes

    @property
    def contract_digest(self) -> str:
        """The digest of the whole manifest."""
        return digest_bytes(self.text)

    def as_dict(self) -> dict[str, Any]:
        """Return a copy of the manifest as it was given."""
        raw: dict[str, Any] = json.loads(self.text)
        return raw

    def tool(self, tool_name: str) -> PackageTool | None:
        """Return the tool of a name that models use, if the package has it."""
        return next((tool for tool in self.tools if tool.tool_name == tool_name), None)


def parse_manifest(raw: Any) -> Manifest:
    """Return the manifest that a JSON object describes, or raise `BadManifest`."""
    problems = Problems()
    text = _bounded_text(raw, problems)
    if text is None or not isinstance(raw, dict):
        raise BadManifest(problems.found() or [Problem("", "type", "It is not a JSON object.")])
    _check_shape(raw, problems)
    _check_honoured(raw, problems)
    if not problems:
        _check_ref_and_metadata(raw, problems)
        tools = _tools_of(raw, problems)
    if problems:
        raise BadManifest(problems.found())
    return Manifest(
        name=raw["name"],
        version=raw["version"],
        ref=raw["ref"],
        format=raw["format"],
        description=raw.get("description", ""),
        tools=tools,
        text=text,
    )


def package_problems(manifest: Manifest, files: Mapping[str, bytes]) -> list[Problem]:
    """Return what is wrong with a tree under its manifest: files, names, and missing entries."""
    found = tree_problems(files, name=manifest.name, version=manifest.version)
    for index, tool in enumerate(manifest.tools):
        path = tool.module.replace(".", "/")
        if f"{path}.py" not in files and f"{path}/__init__.py" not in files:
            message = f"The tree has no module {shown(tool.module)}."
            found.append(Problem(f"tools[{index}].entry", "entry_missing", message))
    return found[:MAX_PROBLEMS]


def tool_name_of(tool_id: str) -> str:
    """Return the name that models use for a tool, derived from its id alone."""
    name = TOOL_PREFIX + re.sub(r"[^A-Za-z0-9_-]", "_", tool_id)
    if len(name) <= 64:
        return name
    return f"{name[:55]}_{hashlib.sha256(tool_id.encode()).hexdigest()[:8]}"


_RISKS: Final = {Effect.READ: Risk.LOW, Effect.WRITE: Risk.MEDIUM, Effect.SENSITIVE: Risk.HIGH}


def _effect_of(mutating: bool, effects: tuple[DeclaredEffect, ...]) -> Effect:
    if any(item.kind is EffectKind.SENSITIVE_DATA_EGRESS for item in effects):
        return Effect.SENSITIVE
    return Effect.WRITE if mutating else Effect.READ


def _title_of(tool_id: str) -> str:
    words = re.sub(r"[._-]+", " ", tool_id.rpartition(".")[2]).strip()
    return words[:1].upper() + words[1:100]


def _bounded_text(raw: Any, problems: Problems) -> bytes | None:
    try:
        text = canonical_json(raw)
    except NotCanonical as refusal:
        problems.add("", "json", str(refusal))
        return None
    if len(text) > MAX_MANIFEST_BYTES:
        problems.add("", "size", f"The manifest is larger than {MAX_MANIFEST_BYTES:,} bytes.")
        return None
    return text


def _check_shape(raw: dict[str, Any], problems: Problems) -> None:
    for error in compile_schema(_MANIFEST_SCHEMA, bounded=False).errors(raw, limit=MAX_PROBLEMS):
        where = dotted("", error.path)
        if error.rule == "additionalProperties":
            for name in error.names:
                problems.add(_below(where, name), "unknown_field", "There is no such field.")
        elif error.rule == "required":
            for name in error.names:
                problems.add(_below(where, name), "required", "The field is missing.")
        else:
            problems.add(where, error.rule, f"It {error.text}")


def _below(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _check_honoured(raw: dict[str, Any], problems: Problems) -> None:
    for field in ("posture", "skills"):
        if raw.get(field) not in (None, [], {}):
            problems.add(field, "unsupported", f"The field {shown(field)} is not supported yet.")
    given = raw.get("format")
    if isinstance(given, str) and given not in FORMATS:
        problems.add("format", "unsupported", f"The format {shown(given)} is not supported yet.")
    tools = raw.get("tools")
    for index, tool in enumerate(tools[:MAX_TOOLS] if isinstance(tools, list) else []):
        definition = tool.get("definition") if isinstance(tool, dict) else None
        if isinstance(definition, dict):
            where = f"tools[{index}].definition"
            for field, sentence in unsupported(definition):
                problems.add(f"{where}.{field}", "unsupported", sentence)
            for field, sentence in contradictions(definition):
                problems.add(f"{where}.{field}", "incoherent", sentence)


def _check_ref_and_metadata(raw: dict[str, Any], problems: Problems) -> None:
    if raw["ref"] != f"{raw['name']}@{raw['version']}":
        problems.add("ref", "ref", "It is not the name and version joined by @.")
    places = [("metadata", raw.get("metadata"))]
    for index, tool in enumerate(raw["tools"]):
        metadata = tool["definition"].get("metadata")
        places.append((f"tools[{index}].definition.metadata", metadata))
    for where, metadata in places:
        if metadata is not None and len(canonical_json(metadata)) > MAX_METADATA_BYTES:
            problems.add(where, "size", f"It is larger than {MAX_METADATA_BYTES:,} bytes.")


def _tools_of(raw: dict[str, Any], problems: Problems) -> tuple[PackageTool, ...]:
    tools: list[PackageTool] = []
    named: dict[str, int] = {}
    for index, item in enumerate(raw["tools"]):
        where = f"tools[{index}]"
        definition = item["definition"]
        tool = PackageTool(
            id=definition["id"],
            tool_name=tool_name_of(definition["id"]),
            ref=raw["ref"],
            entry=item["entry"],
            collaboration=CollaborationClass(item.get("collaboration_class", "unknown")),
            definition_text=canonical_json(definition),
        )
        if tool.tool_name in named:
            message = f"tools[{named[tool.tool_name]}] has the same name {shown(tool.tool_name)}."
            problems.add(f"{where}.definition.id", "name_clash", message)
        named.setdefault(tool.tool_name, index)
        _check_coherence(tool, where, problems)
        tools.append(tool)
    return tuple(tools)


def _check_coherence(tool: PackageTool, where: str, problems: Problems) -> None:
    if tool.mutating and tool.collaboration in (
        CollaborationClass.ACTOR_BOUND_READ,
        CollaborationClass.ACTOR_PRIVATE_READ,
    ):
        message = f"{tool.collaboration} is a class of reads, and the tool is mutating."
        problems.add(f"{where}.collaboration_class", "incoherent", message)
        return
    if not tool.mutating and tool.collaboration is CollaborationClass.ACTOR_BOUND_WRITE:
        message = f"{tool.collaboration} is a class of writes, and the tool is not mutating."
        problems.add(f"{where}.collaboration_class", "incoherent", message)
        return
    if not tool.mutating:
        for index, effect in enumerate(tool.definition.get("effects", [])):
            if EffectKind(effect["kind"]) not in _READ_EFFECTS:
                place = f"{where}.definition.effects[{index}].kind"
                message = f"A tool that is not mutating does not declare {effect['kind']}."
                problems.add(place, "incoherent", message)
                return
    try:
        tool.specification()
    except BadSpecification as refusal:
        field, _, rest = refusal.field.partition("/")
        known = _DEFINITION_FIELDS.get(field)
        place = f"{where}.definition.{known}" if known else where
        problems.add(dotted(place, f"/{rest}" if rest else ""), refusal.rule, refusal.message)
