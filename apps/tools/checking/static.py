"""What can be said of a declaration without running anything of it?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from apps.domain.canonical import BadJson, digest_bytes, strict_loads
from apps.domain.commandio.pins import CannotPin, pin_paths
from apps.domain.entries import CommandEntry, Entry, NodeEntry, PiEntry, PythonEntry
from apps.domain.manifests import (
    BadManifest,
    Manifest,
    PackageTool,
    package_problems,
    parse_manifest,
)
from apps.domain.packagetree import MAX_FILE_BYTES, tree_digest
from apps.domain.problems import Problem
from apps.domain.sessions import HumanTool
from apps.domain.tooling import BadSpecification, Specification, check_specification
from apps.domain.words import shown
from apps.packages.names import reserved_names
from apps.sandbox.client import available
from apps.sandboxd.probe import ProbeReport
from apps.tools.checking.declarations import BUILTIN, Declaration
from apps.tools.declared import network_allowed
from apps.tools.features import feature_is_on
from apps.tools.registry import BUILTIN_TOOLS, THE_SET

_EXACT: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.+-]+)?")


@dataclass(frozen=True, slots=True)
class ToolSheet:
    """One tool: what it declares, where it enters, and what is wrong with it."""

    spec: Specification
    tool_id: str
    entry: str = ""
    pins: dict[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    declared: PackageTool | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the sheet as a JSON object."""
        return {
            "tool": self.spec.name,
            "id": self.tool_id,
            "ready": not self.problems,
            "entry": self.entry,
            "pins": self.pins,
            "problems": [problem.as_dict() for problem in self.problems],
            "specification": self.spec.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class Sheet:
    """One declaration with its tools."""

    declaration: Declaration
    manifest: Manifest | None = None
    tools: tuple[ToolSheet, ...] = ()
    pins: dict[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def humans(self) -> tuple[HumanTool, ...]:
        """The programs that it declares for reviewers."""
        return () if self.manifest is None else self.manifest.human_tools

    @property
    def ready(self) -> bool:
        """Whether nothing is wrong with the declaration or any of its tools."""
        return not self.problems and not any(tool.problems for tool in self.tools)

    def as_dict(self) -> dict[str, Any]:
        """Return the sheet as a JSON object."""
        return {
            "selector": self.declaration.selector,
            "kind": self.declaration.kind,
            "ready": self.ready,
            "pins": self.pins,
            "problems": [problem.as_dict() for problem in self.problems],
            "tools": [tool.as_dict() for tool in self.tools],
            "human_tools": [_human(tool) for tool in self.humans],
        }


def _human(tool: HumanTool) -> dict[str, Any]:
    return {
        "tool": tool.name,
        "artifact": tool.artifact,
        "description": tool.description,
        "entry": tool.program.words,
        "timeout_ms": tool.timeout_ms,
    }


def judge(declaration: Declaration, socket: Path | None = None) -> Sheet:
    """Return what is to be said of one declaration; the socket is that of another supervisor."""
    if declaration.kind == BUILTIN:
        return Sheet(declaration, tools=tuple(_builtin(available(path=socket))))
    try:
        manifest = parse_manifest(declaration.manifest)
    except BadManifest as refusal:
        found = refusal.problems if declaration.manifest is not None else ()
        return Sheet(declaration, problems=(*declaration.problems, *found))
    files = declaration.files
    problems = [*declaration.problems, *package_problems(manifest, files)]
    problems += _hash_problems(declaration)
    problems += _dependency_problems(files)
    report = available(path=socket) if declaration.deployed else None
    if report is not None and not report.ok:
        problems.append(Problem("", "sandbox", report.sentence))
    return Sheet(
        declaration,
        manifest=manifest,
        tools=tuple(_tool(tool, files, report) for tool in manifest.tools),
        pins=_pins(manifest, files),
        problems=tuple(problems),
    )


def _builtin(report: ProbeReport) -> Iterator[ToolSheet]:
    for name, tool in BUILTIN_TOOLS.items():
        problems: list[Problem] = []
        try:
            check_specification(tool.spec)
        except BadSpecification as refusal:
            problems.append(Problem(refusal.field, refusal.rule, refusal.message))
        if name not in THE_SET or THE_SET[name].kind is not tool.spec.effect:
            problems.append(Problem(name, "closed_set", "The closed set does not name it so."))
        if tool.feature is None or feature_is_on(tool.feature):
            # What the deployment switched off on purpose lacks nothing.
            if tool.needs_sandbox and not report.ok:
                problems.append(Problem(name, "sandbox", report.sentence))
            problems += _runtime_problems(name, tool.runtimes, report)
        yield ToolSheet(
            tool.spec,
            tool_id=name,
            entry=f"{tool.handler.__module__}:{tool.handler.__qualname__}",
            problems=tuple(problems),
        )


def _tool(tool: PackageTool, files: dict[str, bytes], report: ProbeReport | None) -> ToolSheet:
    problems = []
    if tool.tool_name.casefold() in reserved_names():
        problems.append(Problem("definition.id", "name", "A tool of our own has this name."))
    path = _source_path(tool.entry, files)
    pins = {} if path is None else {path: digest_bytes(files[path])}
    if isinstance(tool.entry, CommandEntry):
        try:
            pins = pin_paths(files, tool.entry.program.execution_paths)
        except CannotPin as refusal:
            problems.append(Problem("entry.execution_paths", "pin", str(refusal)))
    if report is not None:
        problems += _runtime_problems("entry.runtime", frozenset(tool.runtimes), report)
        if not all(network_allowed(asked.network) for asked in (tool, tool.courier) if asked):
            message = "This deployment lets packages have no such network, so the tool is off."
            problems.append(Problem("definition.network", "network", message))
    if path is not None and isinstance(tool.entry, PythonEntry):
        problems += _entry_problems(tool.entry.function, files[path], path)
    return ToolSheet(
        tool.specification(),
        tool_id=tool.id,
        entry=tool.entry.label,
        pins=pins,
        problems=tuple(problems),
        declared=tool,
    )


def _source_path(entry: Entry, files: dict[str, bytes]) -> str | None:
    """Return the file in which the code of an entry lies, if it is one of the package's."""
    candidates: tuple[str, ...] = ()
    match entry:
        case PythonEntry(module=module):
            stem = module.replace(".", "/")
            candidates = (f"{stem}.py", f"{stem}/__init__.py")
        case NodeEntry(path=path) | PiEntry(path=path):
            candidates = (path,)
    return next((path for path in candidates if path in files), None)


def _entry_problems(function: str, source: bytes, path: str) -> list[Problem]:
    """Say what is wrong with a function that is only read, never imported."""
    try:
        module = ast.parse(source, filename=path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        where = f" (line {problem.lineno})" if isinstance(problem, SyntaxError) else ""
        return [Problem(path, "syntax", f"It is not a Python module{where}.")]
    found = next((node for node in reversed(module.body) if function in _names(node)), None)
    if found is None:
        if any(isinstance(node, ast.ImportFrom) and _takes_all(node) for node in module.body):
            return []
        return [Problem(path, "entry", f"It defines no {shown(function)}.")]
    if isinstance(found, ast.AsyncFunctionDef):
        return [Problem(path, "entry", f"{function} is asynchronous, and would not be awaited.")]
    if isinstance(found, ast.FunctionDef) and not _takes_one_argument(found.args):
        message = f"{function} does not take exactly one argument, the object of arguments."
        return [Problem(path, "entry", message)]
    return []


def _names(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Import() | ast.ImportFrom():
            return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        case _:
            # Bound in some way by what is inside: only running it would tell to what.
            return set(_bound(node))


def _bound(node: ast.stmt) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            yield inner.id
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield inner.name


def _takes_all(node: ast.ImportFrom) -> bool:
    return any(alias.name == "*" for alias in node.names)


def _takes_one_argument(given: ast.arguments) -> bool:
    places = len(given.posonlyargs) + len(given.args)
    required = places - len(given.defaults)
    named = sum(default is None for default in given.kw_defaults)
    return required <= 1 and named == 0 and (places >= 1 or given.vararg is not None)


def _pins(manifest: Manifest, files: dict[str, bytes]) -> dict[str, str]:
    return {"artifact_hash": tree_digest(files), "contract_digest": manifest.contract_digest}


def _hash_problems(declaration: Declaration) -> list[Problem]:
    recorded = declaration.recorded_hash
    if not recorded or tree_digest(declaration.files) == recorded:
        return []
    return [Problem("", "pin", "The stored files are not those whose hash was recorded.")]


def _dependency_problems(files: dict[str, bytes]) -> Iterator[Problem]:
    try:
        package = strict_loads(files.get("package.json", b""), max_bytes=MAX_FILE_BYTES)
    except BadJson:
        return  # the rules of the tree have said so
    for group in ("dependencies", "devDependencies", "optionalDependencies"):
        wanted = package.get(group) if isinstance(package, dict) else None
        for name, version in wanted.items() if isinstance(wanted, dict) else ():
            place = f"package.json.{group}.{shown(str(name))[1:-1]}"
            if not isinstance(version, str) or not _EXACT.fullmatch(version):
                yield Problem(place, "pin", "It is not pinned to one exact version.")
            elif group == "dependencies":
                yield Problem(place, "dependency", "Nothing is installed beside a Python package.")


def _runtime_problems(
    place: str, runtimes: frozenset[str], report: ProbeReport
) -> Iterator[Problem]:
    """Say what a sandbox that is there lacks for a tool; that it is away is said once."""
    lacks = report.lacks(runtimes) if report.ok else ""
    if lacks:
        yield Problem(place, "runtime", lacks)
