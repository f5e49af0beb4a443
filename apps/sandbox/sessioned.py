"""How is a declared program called inside the session that it belongs to?"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from apps.core.correlation import current_correlation_id
from apps.domain.commandio.references import filled_reference
from apps.domain.commandio.requests import Request
from apps.domain.entries import Program
from apps.domain.scoping import Artifact
from apps.domain.sessions import SESSION_VARIABLE, SessionDeclaration
from apps.sandbox.commands import (
    PLACES,
    Bench,
    Started,
    limits_for,
    program_word,
    runtimes_for,
)
from apps.sandbox.sessions import Command, SessionPlan, call_in_session
from apps.sandbox.spec import SandboxResult, SandboxSpec

LIFE_CPU_MS: Final = 600_000
"""CPU time of a session in its whole life, whatever one of its calls may use."""


def started_in(
    session: SessionDeclaration, *, scope: Artifact, run_id: uuid.UUID, package: str
) -> Started:
    """Return what runs a program in the session of a run; `scope` is the session's own artifact.

    The package, by its exact version, tells the session from one of the same name beside it.
    """

    def start(program: Program, words: Sequence[str], stdin: bytes, bench: Bench) -> SandboxResult:
        plan = SessionPlan(
            name=f"{package}:{session.artifact}:{session.name}",
            start=_command(session.start, scope),
            stop=_command(session.stop, scope),
            base=SandboxSpec(
                argv=("true",),
                files=tuple(bench.tree.items()),
                limits=replace(limits_for(bench), cpu_ms=LIFE_CPU_MS),
                correlation_id=current_correlation_id(),
                network=bench.network,
                runtimes=runtimes_for(program, session.start, session.stop),
            ),
            variables=(SESSION_VARIABLE,),
            places=(PLACES.output, PLACES.temporary),
        )
        command = Command(
            (program_word(program, bench.scope), *words), PLACES.of(bench.scope.folder), stdin
        )
        return call_in_session(
            run_id=run_id,
            plan=plan,
            command=command,
            deadline_s=bench.deadline_s,
            cancelled=bench.cancelled,
            path=bench.path,
        )

    return start


def _command(program: Program, scope: Artifact) -> Command:
    """Return a session's own program, which is told of its call like a tool without arguments."""
    places = PLACES.artifacts(scope)
    words = tuple(filled_reference(text, places) for text in program.args)
    asked = Request(scope, PLACES, program.execution_paths, {})
    return Command((program_word(program, scope), *words), PLACES.of(scope.folder), asked.encoded())
