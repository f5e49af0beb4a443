"""Run a program that a package declares as a tool, confined, once for each call.

The program sees its package, two folders of its own for this call, and nothing else. It answers on
its standard output; whatever it prints as errors goes nowhere. Of the files that it writes, the
images that its answer names are read after all of its processes are dead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from apps.core.correlation import current_correlation_id
from apps.domain.canonical import NotCanonical
from apps.domain.commandio.images import MAX_IMAGE_BYTES
from apps.domain.commandio.pins import CannotPin, pin_paths
from apps.domain.commandio.plain import BadArguments, clean_output, plain_argv
from apps.domain.commandio.preparation import check_targets, refusal_of, session_programs
from apps.domain.commandio.references import filled_reference
from apps.domain.commandio.requests import Places, Request
from apps.domain.commandio.results import MAX_STREAM_BYTES, BadResult, CommandResult, parse_result
from apps.domain.egress import NO_NETWORK, Network
from apps.domain.entries import CommandEntry, Program, Protocol
from apps.domain.scoping import Artifact
from apps.domain.sessions import HumanTool, SessionDeclaration
from apps.domain.tooling import MAX_TIMEOUT_S
from apps.sandbox.client import run
from apps.sandbox.errors import SandboxUnavailable, SessionOver
from apps.sandbox.runner import CUT_SHORT, ReplyKind, ToolReply
from apps.sandbox.spec import Clamp, Limits, Reason, SandboxResult, SandboxSpec
from apps.sandboxd.runtimes import NODE

PACKAGE: Final = "/package"
PLACES: Final = Places(package=PACKAGE, output="/workspace/output", temporary="/tmp/call")  # noqa: S108
START_PLACES: Final = Places(
    package=PACKAGE,
    output="/tmp/start/output",  # noqa: S108 - a file system of the sandbox's own
    temporary="/tmp/start/temporary",  # noqa: S108 - as above
)
"""The folders of a session's start, which calls beside it never touch."""
MOST_MS: Final = int(MAX_TIMEOUT_S * 1000)
"""No call of a tool has more time than this, whatever its package asks for."""
_OUTPUT: Final = "output/"
# Make the call's two folders, go to the artifact's, and become the program: no shell stays, and no
# word of the call is ever read by one.
_START: Final = 'mkdir -p "$1" "$2" && cd "$3" || exit 126; shift 3; exec "$@"'
_NOT_STARTED: Final = frozenset({126, 127})


@dataclass(frozen=True, slots=True)
class Bench:
    """What a program is started on: its package's files, its artifact, and its bounds."""

    tree: Mapping[str, bytes]
    scope: Artifact
    limits: Limits
    deadline_s: float
    cancelled: Callable[[], bool] | None = None
    # The socket of another supervisor than the deployment's.
    path: Path | None = None
    # The name under which the tool is recorded.
    published: str = ""
    network: Network = NO_NETWORK
    # What its package asked to be run in, beside the bare Python.
    runtimes: tuple[str, ...] = ()


Started = Callable[[Program, Sequence[str], bytes, Bench], SandboxResult]
"""Runs a program with exactly these arguments and this input."""


def call_command_tool(
    entry: CommandEntry,
    arguments: Mapping[str, Any],
    bench: Bench,
    session: SessionDeclaration | None = None,
    start: Started | None = None,
) -> ToolReply:
    """Call a declared program with a call's arguments, and judge what it answers.

    Its value is the normalised result, images embedded. Every ending is an outcome. A tool that is
    bound to a session is started inside it, by `start`.
    """
    try:
        check_targets(bench.scope, bench.tree)
        pins = _pins(entry, session, bench)
        argv, stdin = _call_of(entry, arguments, bench.scope)
    except CannotPin as refusal:
        return ToolReply(ReplyKind.UNPREPARED, message=refusal_of(refusal))
    except BadArguments as refusal:
        return ToolReply(ReplyKind.BAD_REQUEST, message=str(refusal))
    seconds = min(bench.deadline_s, entry.timeout_ms / 1000)
    timely = replace(bench, deadline_s=seconds)
    reply = _judge_run(entry, argv, stdin, timely, start or run_program)
    if entry.timeout_ms > MOST_MS:
        clamp = Clamp("timeout_ms", entry.timeout_ms, MOST_MS)
        reply = replace(reply, clamped=(*reply.clamped, clamp))
    return replace(reply, pins=pins)


def call_human_tool(tool: HumanTool, bench: Bench) -> ToolReply:
    """Run a program that is meant for a reviewer, who reads what it prints."""
    try:
        check_targets(bench.scope, bench.tree)
        pins = pin_paths(bench.tree, tool.program.execution_paths)
    except CannotPin as refusal:
        return ToolReply(ReplyKind.UNPREPARED, message=refusal_of(refusal))
    places = PLACES.artifacts(bench.scope)
    argv = tuple(filled_reference(text, places) for text in tool.program.args)
    entry = CommandEntry(Protocol.PLAIN, tool.program)
    seconds = min(bench.deadline_s, tool.timeout_ms / 1000)
    reply = _judge_run(entry, argv, b"", replace(bench, deadline_s=seconds), run_program)
    return replace(reply, pins={tool.name: pins} if pins else {})


def _pins(
    entry: CommandEntry, session: SessionDeclaration | None, bench: Bench
) -> dict[str, dict[str, str]]:
    """Pin what a call stands on: the paths of its program, and of its session's two."""
    programs = {bench.published: entry.program}
    if session is not None:
        programs |= session_programs(session)
    pinned = {
        name: pin_paths(bench.tree, program.execution_paths) for name, program in programs.items()
    }
    return {name: pins for name, pins in pinned.items() if pins}


def run_program(
    program: Program, words: Sequence[str], stdin: bytes, bench: Bench
) -> SandboxResult:
    """Run a program with exactly these arguments in its artifact's folder; keep what it writes.

    Raises SandboxUnavailable where nothing was started.
    """
    spec = SandboxSpec(
        argv=(
            *("/bin/sh", "-c", _START, "sh", PLACES.output, PLACES.temporary),
            *(PLACES.of(bench.scope.folder), program_word(program, bench.scope), *words),
        ),
        files=tuple(bench.tree.items()),
        stdin=stdin,
        limits=limits_for(bench),
        correlation_id=current_correlation_id(),
        network=bench.network,
        keep_workspace=True,
        runtimes=runtimes_for(bench, program),
    )
    return run(spec, deadline_s=bench.deadline_s, cancelled=bench.cancelled, path=bench.path)


def runtimes_for(bench: Bench, *programs: Program) -> tuple[str, ...]:
    """Return the runtimes that were asked for, and Node where one of the programs is Node."""
    node = {NODE} if any(program.command == "node" for program in programs) else set()
    return tuple(sorted({*bench.runtimes, *node}))


def program_word(program: Program, scope: Artifact) -> str:
    """Return what is started: a bare name, to be looked up, or a file in the artifact's folder."""
    if "/" not in program.command:
        return program.command
    return f"{PLACES.of(scope.folder)}/{program.command}"


def _call_of(
    entry: CommandEntry, arguments: Mapping[str, Any], scope: Artifact
) -> tuple[tuple[str, ...], bytes]:
    program = entry.program
    if entry.protocol is Protocol.PLAIN:
        return plain_argv(program.args, arguments), b""
    request = Request(scope, PLACES, program.execution_paths, arguments)
    places = PLACES.artifacts(scope)
    try:
        return tuple(filled_reference(text, places) for text in program.args), request.encoded()
    except NotCanonical as refusal:
        raise BadArguments(str(refusal)) from None


def limits_for(bench: Bench) -> Limits:
    """Return the limits of a program's call: those of its tool, and room for a whole answer."""
    return replace(
        bench.limits,
        # Time to make the folders is the sandbox's, and not the program's.
        wall_ms=max(1, int(bench.deadline_s * 1000)),
        stdout_keep_kib=MAX_STREAM_BYTES // 1024,
        stderr_keep_kib=1,
        output_read_mb=2 * MAX_STREAM_BYTES // (1024 * 1024),
    )


def _judge_run(
    entry: CommandEntry, argv: Sequence[str], stdin: bytes, bench: Bench, start: Started
) -> ToolReply:
    try:
        result = start(entry.program, argv, stdin, bench)
    except SessionOver as over:
        why = over.message.removeprefix("The session ended.").strip()
        said = f"The tool session {entry.session} ended. {why}".strip()
        return ToolReply(ReplyKind.STATED, message=said, crossings=over.crossings)
    except SandboxUnavailable as away:
        return ToolReply(ReplyKind.UNAVAILABLE, message=away.message)
    reply = _judged(entry.protocol, result)
    return replace(
        reply,
        exit_code=result.exit_code,
        stats=result.stats,
        clamped=result.clamped,
        crossings=result.crossings,
    )


def _judged(protocol: Protocol, result: SandboxResult) -> ToolReply:
    if result.reason in CUT_SHORT:
        kind, sentence = CUT_SHORT[result.reason]
        said = result.detail or sentence.replace("The tool", "The program")
        return ToolReply(kind, message=said)
    # With these codes a shell says that there is no such program, which then has printed nothing.
    if result.exit_code in _NOT_STARTED and not (result.stdout and protocol is Protocol.PLAIN):
        said = f"The program could not be started, or ended with exit code {result.exit_code}."
        return ToolReply(ReplyKind.CRASHED, message=said)
    if protocol is Protocol.PLAIN:
        return _judged_text(result)
    if result.reason is Reason.EXIT:
        said = f"The program ended with exit code {result.exit_code}."
        return ToolReply(ReplyKind.CRASHED, message=said)
    if max(result.stats.stdout_bytes, result.stats.stderr_bytes) > MAX_STREAM_BYTES:
        return ToolReply(ReplyKind.OUTPUT_LIMIT, message="The program wrote more than it may.")
    try:
        answer = parse_result(result.stdout, PLACES.output, _files_of(result))
    except BadResult as refusal:
        return ToolReply(
            ReplyKind.PROTOCOL_ERROR, message=f"The program's answer is no result: {refusal}"
        )
    if answer.is_error:
        return ToolReply(ReplyKind.STATED, message=answer.error)
    return ToolReply(ReplyKind.VALUE, value=value_of(answer))


def value_of(result: CommandResult) -> dict[str, Any]:
    """Return a result as the value of a tool."""
    return {"content": [block.as_dict() for block in result.content]}


def _judged_text(result: SandboxResult) -> ToolReply:
    text = clean_output(result.stdout, complete=len(result.stdout) == result.stats.stdout_bytes)
    if result.reason is Reason.OK:
        return ToolReply(ReplyKind.VALUE, value={"content": [{"type": "text", "text": text}]})
    said = text if text.strip() else f"The program ended with exit code {result.exit_code}."
    return ToolReply(ReplyKind.CRASHED, message=said)


def _files_of(result: SandboxResult) -> Callable[[str], bytes]:
    changes = result.workspace
    found = {
        file.name[len(_OUTPUT) :]: file.content
        for file in (changes.changed if changes is not None else ())
        if file.name.startswith(_OUTPUT)
    }

    def read(name: str) -> bytes:
        if changes is None or changes.over:
            raise BadResult("The program wrote more files than are read.")
        if name not in found:
            raise BadResult("An image that it names is not a plain file of the output folder.")
        if len(found[name]) > MAX_IMAGE_BYTES:
            raise BadResult(f"An image is larger than {MAX_IMAGE_BYTES:,} bytes.")
        return found[name]

    return read
