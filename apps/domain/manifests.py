"""What does a package promise: which tools, with which definitions, and under which digest?

A manifest is read whole before any of it is believed. Every field is typed, what we do not
honour yet is refused by name, and each tool is turned into the specification under which the
boundary will judge its calls, so that nothing can be admitted that could not be registered.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from apps.domain.canonical import NotCanonical, canonical_json, digest_bytes
from apps.domain.entries import (
    CommandEntry,
    Entry,
    FileEntry,
    HttpEntry,
    PiEntry,
    parse_entry,
)
from apps.domain.entrychecks import (
    check_beside,
    check_entry,
    check_shared,
    entry_in_tree,
    program_in_tree,
)
from apps.domain.handing import with_couriers
from apps.domain.kindgi import contradictions, unsupported
from apps.domain.lockfiles import LOCK, dependency_problems
from apps.domain.manifestshape import MANIFEST_SCHEMA, MAX_TOOLS
from apps.domain.packagetools import PackageTool
from apps.domain.packagetree import PACKAGE_JSON, tree_problems
from apps.domain.pipackages import ReviewedTool, Skill, pi_problems, read_skills
from apps.domain.problems import Problem, Problems, Rejected, dotted
from apps.domain.publication import artifact_tool_name, tool_name_of
from apps.domain.runtimes import check_runtimes, runtime_of
from apps.domain.scoping import Artifact, parse_artifacts, scope_problems
from apps.domain.sessions import (
    HumanTool,
    SessionDeclaration,
    parse_human_tools,
    parse_sessions,
)
from apps.domain.shapes import check_shape
from apps.domain.tooling import BadSpecification, CollaborationClass, EffectKind
from apps.domain.words import shown

__all__ = [
    "FORMATS",
    "FORMAT_TITLES",
    "MAX_MANIFEST_BYTES",
    "BadManifest",
    "Manifest",
    "PackageTool",
    "package_problems",
    "parse_manifest",
    "reviewed_tools",
    "tool_name_of",
]

MAX_MANIFEST_BYTES: Final = 512 * 1024
MAX_METADATA_BYTES: Final = 16 * 1024
FORMATS: Final = ("python", "node", "pi")
FORMAT_TITLES: Final = {"python": "Python tools", "node": "Node tools", "pi": "Pi package"}

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
class Manifest:
    """A package's promise, read and checked."""

    name: str
    version: str
    ref: str
    format: str
    description: str
    tools: tuple[PackageTool, ...]
    text: bytes
    scope: Artifact
    sessions: tuple[SessionDeclaration, ...] = ()
    human_tools: tuple[HumanTool, ...] = ()
    skills: tuple[Skill, ...] = ()

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

    def artifact(self, artifact_id: str) -> Artifact | None:
        """Return a declared artifact with its children; the package itself is one."""
        return next((one for one in self.scope.walk() if one.id == artifact_id), None)

    def session(self, name: str) -> SessionDeclaration | None:
        """Return the session of a name, if the package declares it."""
        return next((one for one in self.sessions if one.name == name), None)


def parse_manifest(raw: Any) -> Manifest:
    """Return the manifest that a JSON object describes, or raise `BadManifest`."""
    problems = Problems()
    text = _bounded_text(raw, problems)
    if text is None or not isinstance(raw, dict):
        raise BadManifest(problems.found() or [Problem("", "type", "It is not a JSON object.")])
    check_shape(raw, MANIFEST_SCHEMA, "", problems)
    _check_honoured(raw, problems)
    entries = _entries_of(raw, problems)
    skills = read_skills(raw.get("skills"), problems) if raw.get("format") == "pi" else ()
    if raw.get("tools") == [] and not skills:
        problems.add("tools", "minItems", "There is neither a tool nor a skill of a Pi package.")
    if not problems:
        _check_ref_and_metadata(raw, problems)
        beside = _Beside.of(raw, problems)
        tools = _tools_of(raw, entries, beside, problems)
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
        scope=beside.scope,
        sessions=tuple(beside.sessions.values()),
        human_tools=beside.humans,
        skills=skills,
    )


@dataclass(frozen=True, slots=True)
class _Beside:
    """What stands in a manifest beside its tools."""

    scope: Artifact
    sessions: dict[str, SessionDeclaration]
    humans: tuple[HumanTool, ...]

    @classmethod
    def of(cls, raw: dict[str, Any], problems: Problems) -> "_Beside":
        name = raw["name"]
        scope = parse_artifacts(raw.get("artifacts", []), name, problems)
        sessions = parse_sessions(raw.get("sessions", {}), name, problems)
        humans = parse_human_tools(raw.get("human_tools", {}), name, problems)
        beside = cls(scope, {one.name: one for one in sessions}, humans)
        check_beside(beside.sessions, humans, beside.artifacts, problems)
        return beside

    @property
    def artifacts(self) -> dict[str, Artifact]:
        return {one.id: one for one in self.scope.walk()}


def package_problems(manifest: Manifest, files: Mapping[str, bytes]) -> list[Problem]:
    """Return what is wrong with a tree under its manifest: files, names, and missing entries."""
    problems = Problems()
    for problem in tree_problems(files, name=manifest.name, version=manifest.version):
        problems.add(problem.path, problem.rule, problem.message)
    paths = files.keys()
    scope_problems(manifest.scope, paths, problems)
    for index, tool in enumerate(manifest.tools):
        scope = manifest.artifact(tool.artifact)
        entry_in_tree(tool.entry, scope, paths, f"tools[{index}].entry", problems)
    for session in manifest.sessions:
        if (scope := manifest.artifact(session.artifact)) is not None:
            where = f"sessions.{session.name}"
            program_in_tree(session.start, scope, paths, f"{where}.start", problems)
            program_in_tree(session.stop, scope, paths, f"{where}.stop", problems)
    for human in manifest.human_tools:
        if (scope := manifest.artifact(human.artifact)) is not None:
            where = f"human_tools.{human.name}"
            program_in_tree(human.program, scope, paths, where, problems)
    for problem in _format_problems(manifest, files):
        problems.add(problem.path, problem.rule, problem.message)
    return problems.found()


def _format_problems(manifest: Manifest, files: Mapping[str, bytes]) -> list[Problem]:
    """Return what is wrong with what a tree needs of others, and with a package of Pi's."""
    found: list[Problem] = []
    if PACKAGE_JSON in files and (manifest.format != "python" or LOCK in files):
        found += dependency_problems(files)
    if manifest.format == "pi":
        found += pi_problems(files, reviewed_tools(manifest.tools), manifest.skills)
    return found


def reviewed_tools(tools: tuple[PackageTool, ...]) -> tuple[ReviewedTool, ...]:
    """Return what extensions of Pi have to register for these tools."""
    return tuple(
        ReviewedTool(tool.entry.tool, tool.entry.path, tool.definition["input"])
        for tool in tools
        if isinstance(tool.entry, PiEntry)
    )


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


def _check_honoured(raw: dict[str, Any], problems: Problems) -> None:
    for field in ("posture",) if raw.get("format") == "pi" else ("posture", "skills"):
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


def _entries_of(raw: dict[str, Any], problems: Problems) -> list[Entry | None]:
    """Read each tool's entry, as far as a shape that may be wrong elsewhere has them."""
    tools = raw.get("tools")
    found: list[Entry | None] = []
    for index, tool in enumerate(tools[:MAX_TOOLS] if isinstance(tools, list) else []):
        where = f"tools[{index}].entry"
        definition = tool.get("definition") if isinstance(tool, dict) else None
        if not isinstance(definition, dict):
            continue
        if definition.get("spec") is not None:
            if "entry" in tool:
                message = "A declared request is made by us, so it has no entry."
                problems.add(where, "incoherent", message)
            found.append(HttpEntry())
        elif "entry" not in tool:
            problems.add(where, "required", "The field is missing.")
        else:
            found.append(parse_entry(tool["entry"], str(raw.get("format")), where, problems))
    return found


def _tools_of(
    raw: dict[str, Any], entries: list[Entry | None], beside: _Beside, problems: Problems
) -> tuple[PackageTool, ...]:
    tools: list[PackageTool] = []
    named: dict[str, int] = {}
    for index, (item, entry) in enumerate(zip(raw["tools"], entries, strict=True)):
        where = f"tools[{index}]"
        if entry is None:
            continue
        definition = item["definition"]
        tool = _tool(raw, item, entry)
        if tool.tool_name in named:
            message = f"tools[{named[tool.tool_name]}] has the same name {shown(tool.tool_name)}."
            problems.add(f"{where}.definition.id", "name_clash", message)
        named.setdefault(tool.tool_name, index)
        before = problems.count
        check_entry(tool.entry, definition, beside.artifacts, beside.sessions, where, problems)
        if problems.count == before:
            _check_coherence(tool, where, problems)
        tools.append(tool)
    check_shared([(tool.entry, tool.definition) for tool in tools], problems)
    check_runtimes([(tool.entry, tool.asked) for tool in tools], problems)
    # Each is looked at beside the others, so only once all of them hold.
    return tuple(tools) if problems else with_couriers(tools, raw["tools"], problems)


def _tool(raw: dict[str, Any], item: dict[str, Any], entry: Entry) -> PackageTool:
    definition = item["definition"]
    artifact, name = "", tool_name_of(definition["id"])
    if isinstance(entry, CommandEntry | FileEntry):
        artifact = entry.artifact or raw["name"]
        entry = replace(entry, artifact=artifact)
        name = artifact_tool_name(definition["id"], artifact)
    return PackageTool(
        id=definition["id"],
        tool_name=name,
        ref=raw["ref"],
        entry=entry,
        collaboration=CollaborationClass(item.get("collaboration_class", "unknown")),
        definition_text=canonical_json(definition),
        artifact=artifact,
        asked=runtime_of(item),
    )


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
