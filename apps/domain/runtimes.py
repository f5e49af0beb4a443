"""In which runtime of the sandbox does a tool run? One of a closed set: what a reviewer can know.

A tool that says nothing has the bare Python. Only functions of Python and programs may say
something: the other kinds of tools have the runtime that they are made for.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from apps.domain.entries import CommandEntry, Entry, NodeEntry, PiEntry, PythonEntry
from apps.domain.problems import Problems


class Runtime(StrEnum):
    """What a package may ask to be run in."""

    PYTHON = "python"
    OFFICE = "office"
    NODE = "node"


RUNTIME_FIELD: Final = "runtime"
RUNTIME_SCHEMA: Final[dict[str, Any]] = {"enum": [one.value for one in Runtime]}
RUNTIME_WORDS: Final[Mapping[Runtime, str]] = {
    Runtime.PYTHON: "bare Python",
    Runtime.OFFICE: "Python with documents, tables and charts",
    Runtime.NODE: "Node",
}
_PI: Final = "pi"


def runtime_of(item: Mapping[str, Any]) -> Runtime | None:
    """Return what a tool's declaration asks for, or nothing where it is silent."""
    return Runtime(item[RUNTIME_FIELD]) if RUNTIME_FIELD in item else None


def bound_runtimes(entry: Entry, asked: Runtime) -> tuple[str, ...]:
    """Return what is bound for a tool's runs, beside the bare Python that all have."""
    names = set() if asked is Runtime.PYTHON else {asked.value}
    match entry:
        case CommandEntry(program=program) if program.command == "node":
            names.add(Runtime.NODE.value)
        case NodeEntry():
            names.add(Runtime.NODE.value)
        case PiEntry():
            names |= {Runtime.NODE.value, _PI}
    return tuple(sorted(names))


def check_runtimes(tools: Sequence[tuple[Entry, Runtime | None]], problems: Problems) -> None:
    """Note a runtime where none can be asked for, and two of them in one session."""
    sessions: dict[str, Runtime] = {}
    for index, (entry, asked) in enumerate(tools):
        where = f"tools[{index}].{RUNTIME_FIELD}"
        if asked is not None and not isinstance(entry, PythonEntry | CommandEntry):
            message = "Only functions of Python and programs ask for a runtime."
            problems.add(where, "incoherent", message)
        if isinstance(entry, CommandEntry) and entry.session:
            own = asked or Runtime.PYTHON
            if sessions.setdefault(entry.session, own) is not own:
                message = "All tools of one session have the same runtime, its sandbox's."
                problems.add(where, "incoherent", message)
