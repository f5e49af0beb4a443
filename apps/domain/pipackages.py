"""What may a native Pi package declare, and does what Pi finds in it equal what was reviewed?

Pi drops what it does not understand and looks elsewhere instead, without a word. So everything
that it will be given is judged here first, as data; and what its loader found is compared with the
reviewed manifest afterwards, one by one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apps.domain.canonical import BadJson, canonical_json, strict_loads
from apps.domain.lockfiles import MAX_BYTES, PACKAGE_JSON, PINNED_FIELDS, is_exact
from apps.domain.problems import Problem, Problems
from apps.domain.words import shown

KEYWORD: Final = "pi-package"
RESOURCES: Final = ("extensions", "skills", "prompts", "themes")
HOST_PACKAGES: Final = frozenset(
    {f"{scope}/{name}"
     for scope in ("@earendil-works", "@mariozechner")
     for name in ("pi-ai", "pi-agent-core", "pi-coding-agent", "pi-tui")}
    | {"typebox", "@sinclair/typebox"}
)  # fmt: skip
MAX_ENTRIES: Final = 64
MAX_SKILLS: Final = 16
MAX_SKILL_BODY: Final = 64 * 1024

_METADATA: Final = frozenset({"image", "video", "changelogPath"})
# Names that Pi gives to tools of its own.
_RESERVED_TOOLS: Final = frozenset({"read", "bash", "edit", "write", "grep", "find", "ls"})
_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")
_SKILL_NAME = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@dataclass(frozen=True, slots=True)
class Skill:
    """Reviewed instructions: their name, where the file lies, and the text."""

    name: str
    body: str
    description: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class ReviewedTool:
    """A tool as the manifest promises it: which extension registers it, and its parameters."""

    name: str
    path: str
    parameters: Any


@dataclass(frozen=True, slots=True)
class FoundTool:
    """A tool as the loader found it."""

    name: str
    path: str
    parameters: Any
    description: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that Pi's loader found in a package."""

    tools: tuple[FoundTool, ...] = ()
    skills: tuple[Skill, ...] = ()


def pi_problems(
    files: Mapping[str, bytes], tools: Sequence[ReviewedTool], skills: Sequence[Skill]
) -> list[Problem]:
    """Return what is wrong with a Pi package before anything of it is loaded."""
    problems = Problems()
    package = _package(files)
    if package is None:
        return []  # said by those who check the tree
    keywords = package.get("keywords")
    if not isinstance(keywords, list) or KEYWORD not in keywords:
        problems.add(f"{PACKAGE_JSON}.keywords", "keyword", f"It does not hold {KEYWORD}.")
    declared = _check_resources(package.get("pi"), problems)
    _check_hosts(package, problems)
    _check_names(tools, problems)
    if tools and not declared.get("extensions"):
        problems.add(f"{PACKAGE_JSON}.pi.extensions", "required", "The package promises tools.")
    if skills and not declared.get("skills"):
        problems.add(f"{PACKAGE_JSON}.pi.skills", "required", "The package promises skills.")
    for index, skill in enumerate(skills):
        if skill.path and skill.path not in files:
            problems.add(f"skills[{index}].path", "entry_missing", "The tree has no such file.")
    return problems.found()


def declared_resources(files: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Return the resource entries of a checked tree's package.json."""
    package = _package(files) or {}
    return _check_resources(package.get("pi"), Problems())


def read_skills(raw: Any, problems: Problems) -> tuple[Skill, ...]:
    """Return the skills of a manifest, or note what is wrong with them."""
    if raw in (None, []):
        return ()
    if not isinstance(raw, list) or len(raw) > MAX_SKILLS:
        problems.add("skills", "type", f"It is not a list of at most {MAX_SKILLS} skills.")
        return ()
    found: list[Skill] = []
    for index, item in enumerate(raw):
        skill = _skill(item, f"skills[{index}]", problems)
        if skill is None:
            continue
        if any(skill.name == other.name for other in found):
            problems.add(f"skills[{index}].name", "name_clash", "Another skill has this name.")
        found.append(skill)
    return tuple(found)


def differences(
    tools: Sequence[ReviewedTool], skills: Sequence[Skill], found: Found
) -> list[Problem]:
    """Return where what Pi found is not exactly what was reviewed."""
    problems = Problems()
    _check_once((tool.name for tool in found.tools), "tools", problems)
    promised = {tool.name: tool for tool in tools}
    there = {tool.name: tool for tool in found.tools}
    for name in sorted(promised.keys() | there.keys()):
        if name not in there:
            problems.add(f"tools.{name}", "not_registered", "No extension registers it.")
        elif name not in promised:
            problems.add(f"tools.{name}", "not_reviewed", "The manifest does not have it.")
        elif there[name].path != promised[name].path:
            problems.add(f"tools.{name}", "path", f"{shown(there[name].path)} registers it.")
        elif _text(there[name].parameters) != _text(promised[name].parameters):
            problems.add(
                f"tools.{name}.input", "schema",
                "The parameters that the extension registers are not the manifest's input schema.",
            )  # fmt: skip
    _compare_skills(skills, found.skills, problems)
    return problems.found()


def _compare_skills(promised: Sequence[Skill], found: Sequence[Skill], problems: Problems) -> None:
    _check_once((skill.name for skill in found), "skills", problems)
    wanted = {skill.name: skill for skill in promised}
    there = {skill.name: skill for skill in found}
    for name in sorted(wanted.keys() | there.keys()):
        if name not in there:
            problems.add(f"skills.{name}", "not_found", "Pi finds no such skill.")
        elif name not in wanted:
            problems.add(f"skills.{name}", "not_reviewed", "The manifest does not have it.")
        elif wanted[name].path and wanted[name].path != there[name].path:
            problems.add(f"skills.{name}.path", "path", f"It lies at {shown(there[name].path)}.")
        elif wanted[name].body.strip() != there[name].body.strip():
            problems.add(f"skills.{name}.body", "body", "The file's text is not the reviewed text.")


def _check_once(names: Iterable[str], kind: str, problems: Problems) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            problems.add(f"{kind}.{name}", "duplicate", "The package has it twice.")
        seen.add(name)


def _text(schema: Any) -> bytes:
    return canonical_json(schema)


def _package(files: Mapping[str, bytes]) -> dict[str, Any] | None:
    try:
        found = strict_loads(files.get(PACKAGE_JSON, b""), max_bytes=MAX_BYTES)
    except BadJson:
        return None
    return found if isinstance(found, dict) else None


def _check_resources(pi: Any, problems: Problems) -> dict[str, list[str]]:
    where = f"{PACKAGE_JSON}.pi"
    if not isinstance(pi, dict):
        problems.add(where, "required", "It is missing or no object: Pi would guess.")
        return {}
    declared: dict[str, list[str]] = {}
    for field, entries in pi.items():
        if field in _METADATA:
            continue
        if field not in RESOURCES:
            problems.add(f"{where}.{field}", "unknown_field", "There is no such resource.")
        elif (
            not isinstance(entries, list)
            or not 1 <= len(entries) <= MAX_ENTRIES
            or not all(isinstance(entry, str) for entry in entries)
        ):
            problems.add(
                f"{where}.{field}", "type",
                f"It is not a list of 1 to {MAX_ENTRIES} paths, so Pi would pass it over.",
            )  # fmt: skip
        else:
            declared[field] = entries
            for index, entry in enumerate(entries):
                if sentence := _entry_problem(entry):
                    problems.add(f"{where}.{field}[{index}]", "path", sentence)
    if not declared and not problems:
        problems.add(where, "required", f"It names none of {', '.join(RESOURCES)}.")
    return declared


def _entry_problem(entry: str) -> str:
    path = entry[1:] if entry[:1] in ("!", "+", "-") else entry
    if not path or len(path) > 240:
        return "It is empty or too long."
    if _HIDDEN.search(path) or "\\" in path:
        return "It holds a backslash, a control or an invisible character."
    if path.startswith(("/", "~")) or path[1:2] == ":" or "://" in path:
        return "It is not relative to the package."
    if ".." in path:
        return "It could leave the package."
    return ""


def _check_hosts(package: dict[str, Any], problems: Problems) -> None:
    for field in PINNED_FIELDS:
        named = package.get(field)
        for name in sorted(HOST_PACKAGES & named.keys()) if isinstance(named, dict) else ():
            problems.add(
                f"{PACKAGE_JSON}.{field}.{name}", "host_package",
                "Pi brings this package: it belongs in peerDependencies with *.",
            )  # fmt: skip
    peers = package.get("peerDependencies", {})
    if not isinstance(peers, dict):
        problems.add(f"{PACKAGE_JSON}.peerDependencies", "type", "It is not an object.")
        return
    for name, version in peers.items():
        where = f"{PACKAGE_JSON}.peerDependencies.{name}"
        if name in HOST_PACKAGES and version != "*":
            problems.add(where, "host_package", "The version of a package that Pi brings is *.")
        elif name not in HOST_PACKAGES and not is_exact(version):
            problems.add(where, "exact_pin", "It is not pinned to one exact version.")


def _check_names(tools: Sequence[ReviewedTool], problems: Problems) -> None:
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        where = f"tools[{index}].entry"
        if not _TOOL_NAME.match(tool.name):
            problems.add(where, "name", "The name of the registered tool is not plain.")
        elif tool.name in _RESERVED_TOOLS:
            problems.add(where, "reserved", f"{tool.name} is a tool of Pi's own.")
        elif tool.name in seen:
            problems.add(where, "name_clash", "Another tool has this registered name.")
        seen.add(tool.name)


def _skill(item: Any, where: str, problems: Problems) -> Skill | None:
    if not isinstance(item, dict) or not {"name", "body"} <= item.keys() <= {
        "name", "body", "description", "path",
    }:  # fmt: skip
        problems.add(where, "type", "It has a name, a body, and maybe a description and a path.")
        return None
    if not all(isinstance(value, str) for value in item.values()):
        problems.add(where, "type", "Its fields are text.")
        return None
    skill = Skill(item["name"], item["body"], item.get("description", ""), item.get("path", ""))
    if not _SKILL_NAME.match(skill.name):
        problems.add(f"{where}.name", "name", "It has small letters, digits and single hyphens.")
    if not skill.body.strip() or len(skill.body.encode()) > MAX_SKILL_BODY:
        problems.add(f"{where}.body", "size", f"It has 1 to {MAX_SKILL_BODY:,} bytes.")
    if len(skill.description) > 1024:
        problems.add(f"{where}.description", "size", "It has at most 1,024 characters.")
    if skill.path and (_entry_problem(skill.path) or skill.path[0] in "!+-"):
        problems.add(f"{where}.path", "path", "It is no plain path in the package.")
    return skill
