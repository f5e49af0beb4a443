"""Which programs stand beside a package's tools? Those of sessions, and those for reviewers.

A session's start keeps running while the tools that name it are called; agents see neither it nor
its stop. A tool for people is run by a reviewer, takes no arguments, and no agent is offered it.
"""

from dataclasses import dataclass
from typing import Any, Final

from apps.domain.entries import (
    DEFAULT_TIMEOUT_MS,
    NAME_SCHEMA,
    PROGRAM_FIELDS,
    TIMEOUT_SCHEMA,
    Program,
    check_program,
    read_program,
)
from apps.domain.problems import Problems
from apps.domain.shapes import check_shape, closed

MAX_SESSIONS: Final = 8
MAX_HUMAN_TOOLS: Final = 32
SESSION_VARIABLE: Final = "ARTIFACTIZE_SESSION_DIR"

_PROGRAM: Final = closed("command args", **PROGRAM_FIELDS)
_SESSIONS_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "propertyNames": NAME_SCHEMA,
    "maxProperties": MAX_SESSIONS,
    "additionalProperties": closed(
        "start stop", start=_PROGRAM, stop=_PROGRAM, artifact=NAME_SCHEMA
    ),
}
_HUMAN_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "propertyNames": NAME_SCHEMA,
    "maxProperties": MAX_HUMAN_TOOLS,
    "additionalProperties": closed(
        "description command args",
        description={"type": "string", "minLength": 1, "maxLength": 4_000},
        timeout_ms=TIMEOUT_SCHEMA,
        artifact=NAME_SCHEMA,
        **PROGRAM_FIELDS,
    ),
}


@dataclass(frozen=True, slots=True)
class SessionDeclaration:
    """A program that lives as long as a run needs it, and the one that ends it."""

    name: str
    start: Program
    stop: Program
    artifact: str


@dataclass(frozen=True, slots=True)
class HumanTool:
    """A program that a reviewer may run on the package."""

    name: str
    description: str
    program: Program
    artifact: str
    timeout_ms: int = DEFAULT_TIMEOUT_MS


def parse_sessions(raw: Any, package: str, problems: Problems) -> tuple[SessionDeclaration, ...]:
    """Return the sessions that a manifest declares, noting what is wrong with them."""
    if not _fits(raw, _SESSIONS_SCHEMA, "sessions", problems):
        return ()
    found = []
    for name, item in raw.items():
        for field in ("start", "stop"):
            check_program(item[field], f"sessions.{name}.{field}", problems)
        found.append(
            SessionDeclaration(
                name=name,
                start=read_program(item["start"]),
                stop=read_program(item["stop"]),
                artifact=item.get("artifact", package),
            )
        )
    return tuple(found)


def parse_human_tools(raw: Any, package: str, problems: Problems) -> tuple[HumanTool, ...]:
    """Return the tools for reviewers that a manifest declares, noting what is wrong with them."""
    if not _fits(raw, _HUMAN_SCHEMA, "human_tools", problems):
        return ()
    found = []
    for name, item in raw.items():
        check_program(item, f"human_tools.{name}", problems)
        if not item["description"].strip():
            problems.add(f"human_tools.{name}.description", "blank", "It says nothing.")
        found.append(
            HumanTool(
                name=name,
                description=item["description"],
                program=read_program(item),
                artifact=item.get("artifact", package),
                timeout_ms=item.get("timeout_ms", DEFAULT_TIMEOUT_MS),
            )
        )
    return tuple(found)


def _fits(raw: Any, schema: dict[str, Any], where: str, problems: Problems) -> bool:
    found = Problems()
    check_shape(raw, schema, where, found)
    for problem in found.found():
        problems.add(problem.path, problem.rule, problem.message)
    return not found
