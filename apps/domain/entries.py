"""Where does a declared tool enter? In a function, a program, a file tool of ours, or nowhere.

A string names a function of the package's own code. An object names a program with its protocol,
or one of the read-only file tools. A tool that is a declared request has no entry at all.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from apps.domain.problems import Problems
from apps.domain.shapes import check_shape, closed

DEFAULT_TIMEOUT_MS: Final = 120_000
MAX_TIMEOUT_MS: Final = 2**31 - 1
MAX_EXECUTION_PATHS: Final = 64
MAX_ARGUMENTS: Final = 128
MAX_ARGUMENT: Final = 4_096
MAX_LABEL: Final = 200

_PYTHON: Final = re.compile(
    r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*"
)
# Node strips the types of TypeScript itself; Pi's loader takes the same files.
_MODULE: Final = r"[A-Za-z0-9_@][A-Za-z0-9_.@-]*(?:/[A-Za-z0-9_@][A-Za-z0-9_.@-]*)*\.[cm]?[jt]s"
_NODE: Final = re.compile(_MODULE + r"#[A-Za-z_$][\w$]*", re.ASCII)
_PI: Final = re.compile(_MODULE + r"#[A-Za-z_][A-Za-z0-9_-]{0,63}")

NAME_SCHEMA: Final[dict[str, Any]] = {
    "type": "string",
    "pattern": "^[a-z0-9]+([._-][a-z0-9]+)*$",
    "maxLength": 64,
}
_ARGUMENT: Final[dict[str, Any]] = {"type": "string", "maxLength": MAX_ARGUMENT}
_ARGUMENTS: Final[dict[str, Any]] = {
    "type": "array",
    "items": _ARGUMENT,
    "maxItems": MAX_ARGUMENTS,
}
_PATH: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": MAX_ARGUMENT}
PROGRAM_FIELDS: Final[dict[str, Any]] = {
    "command": {"type": "string", "minLength": 1, "maxLength": 1_024},
    "args": _ARGUMENTS,
    "execution_paths": {
        "type": "array",
        "items": _PATH,
        "maxItems": MAX_EXECUTION_PATHS,
        "uniqueItems": True,
    },
}
TIMEOUT_SCHEMA: Final[dict[str, Any]] = {
    "type": "integer",
    "minimum": 1,
    "maximum": MAX_TIMEOUT_MS,
}


class Protocol(StrEnum):
    """How a program is spoken to, and how it answers."""

    JSON = "json"
    PLAIN = "plain"


class FileTool(StrEnum):
    """The read-only tools over the files of a scope."""

    READ = "read"
    LIST = "list"
    GLOB = "glob"
    GREP = "grep"
    SECTION = "section"
    HELP = "help"
    GRAPH = "graph"
    VIEW_IMAGE = "view_image"


@dataclass(frozen=True, slots=True)
class PythonEntry:
    """A function of a Python module, called with the arguments."""

    module: str
    function: str

    @property
    def label(self) -> str:
        """The entry as it is shown and kept."""
        return f"{self.module}:{self.function}"


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """An exported function of an ECMAScript module."""

    path: str
    export: str

    @property
    def label(self) -> str:
        """The entry as it is shown and kept."""
        return f"{self.path}#{self.export}"


@dataclass(frozen=True, slots=True)
class PiEntry:
    """A tool that an extension of a Pi package registers."""

    path: str
    tool: str

    @property
    def label(self) -> str:
        """The entry as it is shown and kept."""
        return f"{self.path}#{self.tool}"


@dataclass(frozen=True, slots=True)
class HttpEntry:
    """No code at all: the definition says which request is made."""

    @property
    def label(self) -> str:
        """The entry as it is shown and kept."""
        return "declared request"


@dataclass(frozen=True, slots=True)
class Program:
    """A program with its arguments, and what of the package its runs stand on."""

    command: str
    args: tuple[str, ...] = ()
    execution_paths: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The command line as one line for people."""
        return " ".join((self.command, *self.args))


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A program that is started once for each call."""

    protocol: Protocol
    program: Program
    session: str = ""
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    # The artifact whose tool it is; empty for the package itself.
    artifact: str = ""

    @property
    def label(self) -> str:
        """The entry as it is shown and kept."""
        return _clipped(f"{self.protocol.value}: {self.program.words}")


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One of the file tools; with `args` its target is fixed."""

    tool: FileTool
    args: tuple[str, ...] | None = None
    artifact: str = ""

    @property
    def label(self) -> str:
        """The entry as it is shown and kept."""
        return _clipped(" ".join((f"builtin {self.tool.value}", *(self.args or ()))))


Entry = PythonEntry | NodeEntry | PiEntry | HttpEntry | CommandEntry | FileEntry

_COMMAND_SCHEMA: Final = closed(
    "protocol command args",
    protocol={"enum": [one.value for one in Protocol]},
    session=NAME_SCHEMA,
    timeout_ms=TIMEOUT_SCHEMA,
    artifact=NAME_SCHEMA,
    **PROGRAM_FIELDS,
)
_FILE_SCHEMA: Final = closed(
    "builtin",
    builtin={"enum": [one.value for one in FileTool]},
    args=_ARGUMENTS,
    artifact=NAME_SCHEMA,
)
# How many arguments a file tool takes when its target is fixed.
_FIXED: Final[dict[FileTool, range]] = {
    FileTool.READ: range(1, 2),
    FileTool.LIST: range(2),
    FileTool.SECTION: range(2, 3),
    FileTool.HELP: range(1, MAX_ARGUMENTS),
    FileTool.GRAPH: range(1),
}
_ONLY_FIXED: Final = frozenset({FileTool.SECTION, FileTool.HELP, FileTool.GRAPH})


def parse_entry(raw: Any, package_format: str, where: str, problems: Problems) -> Entry | None:
    """Return the entry that a declared value names, or note what is wrong with it.

    Which string is meant follows from the package's format; an object means the same in each.
    """
    if isinstance(raw, str):
        return _function(raw, package_format, where, problems)
    if isinstance(raw, dict):
        read = _file_tool if "builtin" in raw else _command
        return read(raw, where, problems)
    problems.add(where, "type", "It is neither a string nor an object.")
    return None


def read_program(raw: dict[str, Any]) -> Program:
    """Return the program that an object of the right shape names."""
    return Program(
        command=raw["command"],
        args=tuple(raw["args"]),
        execution_paths=tuple(raw.get("execution_paths", ())),
    )


def check_program(raw: dict[str, Any], where: str, problems: Problems) -> None:
    """Note what no schema says of a program: names and arguments that could not be passed on."""
    for place, text in _texts(raw, where):
        if "\x00" in text:
            problems.add(place, "nul", "It holds the NUL character.")
    command = raw["command"]
    if not command.strip() or command != command.strip():
        problems.add(f"{where}.command", "command", "It is blank, or has blanks around it.")
    parts = command.split("/")
    if "/" in command and any(part in ("", ".", "..") for part in parts):
        message = (
            "A program is a bare name, which is looked up, or a path of the package without"
            " parts that are empty or dots."
        )
        problems.add(f"{where}.command", "command", message)


def _texts(raw: dict[str, Any], where: str) -> Iterator[tuple[str, str]]:
    yield f"{where}.command", raw["command"]
    for field in ("args", "execution_paths"):
        for index, text in enumerate(raw.get(field, ())):
            yield f"{where}.{field}[{index}]", text


def _function(
    raw: str, package_format: str, where: str, problems: Problems
) -> PythonEntry | NodeEntry | PiEntry | None:
    if len(raw) > MAX_LABEL:
        problems.add(where, "maxLength", f"It is longer than {MAX_LABEL} characters.")
        return None
    if package_format in ("node", "pi"):
        if not (_PI if package_format == "pi" else _NODE).fullmatch(raw):
            problems.add(where, "pattern", "It does not have the form file.mjs#name.")
            return None
        path, _, name = raw.partition("#")
        return PiEntry(path, name) if package_format == "pi" else NodeEntry(path, name)
    if not _PYTHON.fullmatch(raw):
        message = "It does not have the form module:function, in plain Python names."
        problems.add(where, "pattern", message)
        return None
    module, _, function = raw.partition(":")
    return PythonEntry(module, function)


def _command(raw: dict[str, Any], where: str, problems: Problems) -> CommandEntry | None:
    if not _has_shape(raw, _COMMAND_SCHEMA, where, problems):
        return None
    check_program(raw, where, problems)
    return CommandEntry(
        protocol=Protocol(raw["protocol"]),
        program=read_program(raw),
        session=raw.get("session", ""),
        timeout_ms=raw.get("timeout_ms", DEFAULT_TIMEOUT_MS),
        artifact=raw.get("artifact", ""),
    )


def _file_tool(raw: dict[str, Any], where: str, problems: Problems) -> FileEntry | None:
    if not _has_shape(raw, _FILE_SCHEMA, where, problems):
        return None
    tool = FileTool(raw["builtin"])
    args = tuple(raw["args"]) if "args" in raw else None
    if args is None:
        if tool in _ONLY_FIXED:
            problems.add(f"{where}.args", "required", f"{tool} works on a fixed target.")
            return None
    elif tool not in _FIXED:
        problems.add(f"{where}.args", "unsupported", f"{tool} takes its target from the model.")
        return None
    elif len(args) not in _FIXED[tool]:
        least, most = _FIXED[tool][0], _FIXED[tool][-1]
        count = str(least) if least == most else f"{least} to {most}"
        problems.add(f"{where}.args", "count", f"{tool} takes {count} of them.")
        return None
    for index, text in enumerate(args or ()):
        if "\x00" in text:
            problems.add(f"{where}.args[{index}]", "nul", "It holds the NUL character.")
    return FileEntry(tool, args, raw.get("artifact", ""))


def _has_shape(raw: Any, schema: dict[str, Any], where: str, problems: Problems) -> bool:
    found = Problems()
    check_shape(raw, schema, where, found)
    for problem in found.found():
        problems.add(problem.path, problem.rule, problem.message)
    return not found


def _clipped(text: str) -> str:
    line = json.dumps(text, ensure_ascii=False)[1:-1]
    return line if len(line) <= MAX_LABEL else line[: MAX_LABEL - 1] + "…"
