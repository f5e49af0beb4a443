"""Call a program inside the session that its tool names: started once, and shared by one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from apps.domain.commandio.references import filled_reference
from apps.domain.commandio.requests import Places, Request
from apps.domain.entries import CommandEntry, Program
from apps.domain.sessions import SESSION_VARIABLE, SessionDeclaration
from apps.sandbox.commands import (
    PLACES,
    START_PLACES,
    Bench,
    call_command_tool,
    limits_for,
    program_word,
    runtimes_for,
)
from apps.sandbox.runner import ToolReply
from apps.sandbox.session_program import Asking, Command, Door, SessionPlan
from apps.sandbox.spec import Limits, SandboxResult, SandboxSpec
from apps.sandboxd.limits import CEILINGS


@dataclass(frozen=True, slots=True)
class Binding:
    """The session that a tool's calls go to; `ref` is the package's exact version."""

    declaration: SessionDeclaration
    door: Door
    ref: str

    @property
    def name(self) -> str:
        """Return what tells the session from every other of its run."""
        return session_name(self.declaration, self.ref)


def session_name(declared: SessionDeclaration, ref: str) -> str:
    """Return the name of a session: two versions of one package may meet, and share nothing."""
    return f"{declared.name}_{declared.artifact} {ref}"[:200]


def call_bound_tool(
    entry: CommandEntry, arguments: Mapping[str, Any], bench: Bench, binding: Binding
) -> ToolReply:
    """Call a program in its session, which is started by the first call that needs it."""

    def start(program: Program, words: Sequence[str], stdin: bytes, bench: Bench) -> SandboxResult:
        return binding.door(
            Asking(
                plan=_plan(entry, binding, bench),
                command=_command(program, words, stdin, bench),
                deadline_s=bench.deadline_s,
                cancelled=bench.cancelled,
                path=bench.path,
            )
        )

    return call_command_tool(entry, arguments, bench, binding.declaration, start)


def _plan(entry: CommandEntry, binding: Binding, bench: Bench) -> SessionPlan:
    declared = binding.declaration
    return SessionPlan(
        name=binding.name,
        start=_own_command(declared.start, bench, START_PLACES),
        stop=_own_command(declared.stop, bench, PLACES),
        base=SandboxSpec(
            argv=(),
            files=tuple(bench.tree.items()),
            limits=_life(bench),
            network=bench.network,
            runtimes=runtimes_for(bench, declared.start, declared.stop, entry.program),
        ),
        variables=(SESSION_VARIABLE,),
        places=(PLACES.output, PLACES.temporary),
        own_places=(START_PLACES.output, START_PLACES.temporary),
    )


def _life(bench: Bench) -> Limits:
    """Return the limits of a whole session, whose time is that of its run."""
    return replace(limits_for(bench), wall_ms=CEILINGS.wall_ms, cpu_ms=CEILINGS.cpu_ms)


def _own_command(program: Program, bench: Bench, places: Places) -> Command:
    """Return a start or stop command, told of its call as any other, with no arguments."""
    named = places.artifacts(bench.scope)
    words = [filled_reference(text, named) for text in program.args]
    request = Request(bench.scope, places, program.execution_paths)
    return _command(program, words, request.encoded(), bench)


def _command(program: Program, words: Sequence[str], stdin: bytes, bench: Bench) -> Command:
    argv = (program_word(program, bench.scope), *words)
    return Command(argv=argv, cwd=PLACES.of(bench.scope.folder), stdin=stdin)
