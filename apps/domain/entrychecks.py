"""Does an entry hold: under its definition, in its artifact's scope, and in its package's tree?"""

from collections.abc import Mapping, Sequence, Set
from typing import Any

from apps.domain.commandio.references import check_reference
from apps.domain.commandio.templates import BadTemplate, check_slots, described
from apps.domain.entries import (
    CommandEntry,
    Entry,
    FileEntry,
    FileTool,
    HttpEntry,
    NodeEntry,
    PiEntry,
    Program,
    Protocol,
    PythonEntry,
)
from apps.domain.filescope.tools import OUTPUT_SCHEMA, input_schema_of
from apps.domain.packagetree import path_problem
from apps.domain.problems import Problems
from apps.domain.scoping import Artifact
from apps.domain.sessions import HumanTool, SessionDeclaration
from apps.domain.words import shown


def check_entry(
    entry: Entry,
    definition: Mapping[str, Any],
    artifacts: Mapping[str, Artifact],
    sessions: Mapping[str, SessionDeclaration],
    where: str,
    problems: Problems,
) -> None:
    """Note what keeps an entry from doing what its definition says."""
    if not isinstance(entry, CommandEntry | FileEntry):
        return
    scope = artifacts.get(entry.artifact)
    if scope is None:
        message = f"The manifest declares no artifact {shown(entry.artifact)}."
        problems.add(f"{where}.entry.artifact", "unknown", message)
        return
    try:
        described(definition["description"], scope.id)
    except BadTemplate as refusal:
        problems.add(f"{where}.definition.description", "template", str(refusal))
    if isinstance(entry, FileEntry):
        if definition.get("mutating") is not False:
            message = "A file tool changes nothing, so its definition has to say false."
            problems.add(f"{where}.definition.mutating", "incoherent", message)
        _check_own_schemas(entry, definition, where, problems)
        return
    if entry.protocol is Protocol.JSON:
        check_references(entry.program, scope, f"{where}.entry", problems)
    else:
        _check_placeholders(entry.program, definition["input"], f"{where}.entry", problems)
    if entry.session:
        session = sessions.get(entry.session)
        if session is None or session.artifact != entry.artifact:
            message = f"Its artifact declares no session {shown(entry.session)}."
            problems.add(f"{where}.entry.session", "unknown", message)


def check_beside(
    sessions: Mapping[str, SessionDeclaration],
    humans: tuple[HumanTool, ...],
    artifacts: Mapping[str, Artifact],
    problems: Problems,
) -> None:
    """Note what is wrong with the programs that stand beside the tools."""
    recorded: set[str] = set()
    for session in sessions.values():
        where = f"sessions.{session.name}"
        scope = artifacts.get(session.artifact)
        if scope is None:
            message = f"The manifest declares no artifact {shown(session.artifact)}."
            problems.add(f"{where}.artifact", "unknown", message)
            continue
        if (name := f"{session.name}_{session.artifact}") in recorded:
            message = f"Another session is recorded as {shown(name)} too."
            problems.add(where, "name_clash", message)
        recorded.add(name)
        check_references(session.start, scope, f"{where}.start", problems)
        check_references(session.stop, scope, f"{where}.stop", problems)
    for human in humans:
        where = f"human_tools.{human.name}"
        scope = artifacts.get(human.artifact)
        if scope is None:
            message = f"The manifest declares no artifact {shown(human.artifact)}."
            problems.add(f"{where}.artifact", "unknown", message)
            continue
        check_references(human.program, scope, where, problems)


def check_shared(entries: Sequence[tuple[Entry, Mapping[str, Any]]], problems: Problems) -> None:
    """Note a tool that would reach another network than the one whose session it shares."""
    networks: dict[str, Any] = {}
    for index, (entry, definition) in enumerate(entries):
        if isinstance(entry, CommandEntry) and entry.session:
            network = definition.get("network") or {"kind": "none"}
            if networks.setdefault(entry.session, network) != network:
                message = "All tools of one session have the same network, which is its sandbox's."
                problems.add(f"tools[{index}].definition.network", "incoherent", message)


def check_references(program: Program, scope: Artifact, where: str, problems: Problems) -> None:
    """Note each argument that names a place which its artifact may not look at."""
    for index, text in enumerate(program.args):
        try:
            check_reference(text, scope)
        except BadTemplate as refusal:
            problems.add(f"{where}.args[{index}]", "template", str(refusal))


def entry_in_tree(
    entry: Entry, scope: Artifact | None, files: Set[str], where: str, problems: Problems
) -> None:
    """Note what an entry needs of the package's tree and the tree does not have."""
    match entry:
        case PythonEntry(module=module):
            path = module.replace(".", "/")
            if f"{path}.py" not in files and f"{path}/__init__.py" not in files:
                problems.add(where, "entry_missing", f"The tree has no module {shown(module)}.")
        case NodeEntry(path=path) | PiEntry(path=path):
            if path not in files:
                problems.add(where, "entry_missing", f"The tree has no file {shown(path)}.")
        case CommandEntry(program=program):
            if scope is not None:
                program_in_tree(program, scope, files, where, problems)
        case FileEntry(tool=FileTool.HELP, args=args) if args and scope is not None:
            program_in_tree(Program(args[0]), scope, files, where, problems)
        case HttpEntry() | FileEntry():
            pass


def program_in_tree(
    program: Program, scope: Artifact, files: Set[str], where: str, problems: Problems
) -> None:
    """Note a program or an execution path that the tree does not have.

    A bare name is looked up where the program runs; a path lies in its artifact's folder.
    """
    if "/" in program.command:
        path = f"{scope.folder}/{program.command}" if scope.folder else program.command
        if path not in files:
            problems.add(f"{where}.command", "entry_missing", f"The tree has no {shown(path)}.")
    for index, path in enumerate(program.execution_paths):
        place = f"{where}.execution_paths[{index}]"
        if refused := path_problem(path):
            problems.add(place, *refused)
        elif path not in files and not any(one.startswith(f"{path}/") for one in files):
            problems.add(place, "entry_missing", f"The tree has no {shown(path)}.")


def _check_own_schemas(
    entry: FileEntry, definition: Mapping[str, Any], where: str, problems: Problems
) -> None:
    """Note a schema that is neither open nor the one that a file tool has anyway."""
    for field, own in (("input", input_schema_of(entry)), ("output", OUTPUT_SCHEMA)):
        if definition[field] not in ({"type": "object"}, own):
            message = 'A file tool has a schema of its own: write {"type": "object"} here.'
            problems.add(f"{where}.definition.{field}", "incoherent", message)


def _check_placeholders(
    program: Program, schema: Mapping[str, Any], where: str, problems: Problems
) -> None:
    declared = schema.get("properties")
    names = declared if isinstance(declared, dict) else {}
    for index, text in enumerate(program.args):
        try:
            check_slots(text, names, "property of its input")
        except BadTemplate as refusal:
            problems.add(f"{where}.args[{index}]", "template", str(refusal))
