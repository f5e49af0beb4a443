"""How is a read-only file tool of a package carried out? Here, on the bytes that were admitted.

No code of the package runs and nothing is written, so it needs no sandbox; only help starts the
program that it tells of, and does so confined.
"""

from __future__ import annotations

import time
from dataclasses import replace

from apps.domain.commandio.pins import CannotPin
from apps.domain.commandio.plain import clean_output
from apps.domain.commandio.preparation import check_targets, refusal_of
from apps.domain.entries import FileEntry, FileTool, Program
from apps.domain.filescope.files import Files, TreeFiles
from apps.domain.filescope.paths import NotThere, ScopeError
from apps.domain.filescope.scope import Scope
from apps.domain.filescope.tools import call_file_tool
from apps.domain.manifests import Manifest
from apps.domain.wire import JsonValue
from apps.sandbox.commands import Bench, run_program, value_of
from apps.sandbox.errors import SandboxUnavailable
from apps.sandbox.runner import CUT_SHORT, ReplyKind, ToolReply
from apps.sandbox.spec import Reason


def call_declared_file_tool(
    entry: FileEntry,
    arguments: dict[str, JsonValue],
    manifest: Manifest,
    bench: Bench,
    files: Files | None = None,
) -> ToolReply:
    """Carry out a file tool on its package's tree, or on other files of the same names."""
    if entry.tool is FileTool.HELP:
        return _help(entry, bench)
    tools: dict[str, list[str]] = {}
    for tool in manifest.tools:
        if tool.artifact:
            tools.setdefault(tool.artifact, []).append(tool.published)
    until = time.monotonic() + bench.deadline_s

    def gone() -> bool:
        return time.monotonic() >= until or (bench.cancelled is not None and bench.cancelled())

    scope = Scope(bench.scope, TreeFiles(bench.tree) if files is None else files)
    try:
        result = call_file_tool(
            entry, scope, arguments, root=manifest.scope, tools=tools, gone=gone
        )
    except NotThere as refusal:
        return ToolReply(ReplyKind.NOT_FOUND, message=str(refusal))
    except ScopeError as refusal:
        return ToolReply(ReplyKind.BAD_REQUEST, message=str(refusal))
    return ToolReply(ReplyKind.VALUE, value=value_of(result))


def _help(entry: FileEntry, bench: Bench) -> ToolReply:
    """Start a program to have it tell of itself; one that is named alone is asked for its help."""
    command, *words = entry.args or ("",)
    try:
        check_targets(bench.scope, bench.tree)
        result = run_program(Program(command), words or ["--help"], b"", bench)
    except CannotPin as refusal:
        return ToolReply(ReplyKind.UNPREPARED, message=refusal_of(refusal))
    except SandboxUnavailable as away:
        return ToolReply(ReplyKind.UNAVAILABLE, message=away.message)
    reply = ToolReply(
        ReplyKind.VALUE,
        exit_code=result.exit_code,
        stats=result.stats,
        clamped=result.clamped,
        crossings=result.crossings,
    )
    if result.reason in CUT_SHORT:
        kind, sentence = CUT_SHORT[result.reason]
        return replace(reply, kind=kind, message=sentence.replace("The tool", "The program"))
    if result.reason is not Reason.OK:
        said = f"The program ended with exit code {result.exit_code}."
        return replace(reply, kind=ReplyKind.CRASHED, message=said)
    text = clean_output(result.stdout, complete=len(result.stdout) == result.stats.stdout_bytes)
    return replace(reply, value={"content": [{"type": "text", "text": text}]})
