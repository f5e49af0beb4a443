"""What comes of one exact call, made on purpose and outside any run?

Code of a package runs in the sandbox, as it would in a call, and nowhere else. Nothing of it is
kept: no run, no verdict, no row.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from apps.domain.canonical import canonical_json
from apps.domain.entries import HttpEntry
from apps.domain.handing import BadPause, asked_pause
from apps.domain.tooling import MAX_TIMEOUT_S
from apps.sandbox.client import Limits
from apps.sandbox.commands import Bench, call_human_tool
from apps.sandbox.errors import JobRefused
from apps.sandbox.runner import ReplyKind, ToolReply
from apps.sandbox.session_ends import CleanupFailed
from apps.sandbox.sessions import OwnSession
from apps.tools.checking.declarations import BUILTIN
from apps.tools.checking.selection import Audience, Selection
from apps.tools.checking.static import Sheet, ToolSheet
from apps.tools.folderfiles import FolderFiles
from apps.tools.packaged import call_packaged


def try_tool(
    sheets: list[Sheet], selection: Selection, socket: Path | None = None
) -> dict[str, Any]:
    """Execute the one tool that was named and report what came of it."""
    if selection.audience is Audience.HUMAN:
        return _try_human_tool(sheets, selection.tool, socket)
    found = [
        (sheet, tool)
        for sheet in sheets
        for tool in sheet.tools
        if selection.tool in _names(tool, selection)
    ]
    if len(found) != 1:
        return _refused("not_found", "The selection has no tool of that name.")
    sheet, tool = found[0]
    if sheet.declaration.kind == BUILTIN:
        return _refused(
            "unsupported",
            "A tool of our own runs as a member in a room, and a check has neither.",
        )
    if sheet.problems or tool.problems:
        return _refused("not_ready", "The declaration is not ready, so nothing was executed.")
    return _call(sheet, tool, selection.arguments, socket)


def _try_human_tool(sheets: list[Sheet], name: str, socket: Path | None) -> dict[str, Any]:
    """Run the tool for people of that name, which takes no arguments."""
    if not any(sheet.humans for sheet in sheets):
        return _refused("unsupported", "The declaration has no tools for people.")
    found = [(sheet, tool) for sheet in sheets for tool in sheet.humans if tool.name == name]
    if len(found) != 1:
        return _refused("not_found", "The selection has no tool for people of that name.")
    sheet, tool = found[0]
    scope = None if sheet.manifest is None else sheet.manifest.artifact(tool.artifact)
    if sheet.problems or scope is None:
        return _refused("not_ready", "The declaration is not ready, so nothing was executed.")
    bench = Bench(sheet.declaration.files, scope, Limits(), MAX_TIMEOUT_S, path=socket)
    try:
        return _said(call_human_tool(tool, bench))
    except JobRefused as refusal:
        return _refused("sandbox", str(refusal))


def _said(reply: ToolReply) -> dict[str, Any]:
    if reply.kind is not ReplyKind.VALUE:
        return _refused(reply.kind.value, reply.message)
    return {
        "ok": True,
        "outcome": "value",
        "message": "",
        "value": reply.value,
        "wall_ms": reply.stats.wall_ms,
    }


def _names(tool: ToolSheet, selection: Selection) -> tuple[str, ...]:
    # The short name is unambiguous only where the artifact was named.
    return (tool.spec.name, tool.tool_id) if selection.artifact else (tool.spec.name,)


def _call(sheet: Sheet, tool: ToolSheet, arguments: Any, socket: Path | None) -> dict[str, Any]:
    spec, declared, manifest = tool.spec, tool.declared, sheet.manifest
    if declared is None or manifest is None:
        return _refused("not_ready", "The tool has no entry.")
    if isinstance(declared.entry, HttpEntry):
        return _refused(
            "unsupported",
            "A declared request is made for a call, with what its package was granted; a check"
            " sends none.",
        )
    if len(canonical_json(arguments)) > spec.argument_cap:
        return _refused("arguments", f"They are larger than {spec.argument_cap:,} bytes.")
    errors = spec.argument_errors(arguments)
    if errors:
        return _refused("arguments", "They do not satisfy the input schema.") | {
            "errors": [error.as_dict() for error in errors]
        }
    own = OwnSession()
    try:
        with _files(sheet) as files:
            reply = call_packaged(
                declared,
                manifest,
                sheet.declaration.files,
                arguments,
                deadline_s=spec.timeout_s,
                path=socket,
                files=files,
                sessions=own.ask,
            )
        outcome = outcome_of(tool, reply)
    except JobRefused as refusal:
        outcome = _refused("sandbox", str(refusal))
    except BaseException:
        # Interrupted, or broken: what was started for it is stopped all the same.
        own.close()
        raise
    try:
        own.close()
    except CleanupFailed as unclean:
        # Whatever the call came to: this is what the check ends with.
        return _refused("cleanup", unclean.message)
    return outcome


def _files(sheet: Sheet) -> AbstractContextManager[FolderFiles | None]:
    """Return the folder that file tools look at as it lies, where the declaration has one."""
    folder = sheet.declaration.folder
    return nullcontext() if folder is None else FolderFiles(folder)


def outcome_of(tool: ToolSheet, reply: ToolReply) -> dict[str, Any]:
    """Return what is said of a reply: only a value that keeps the contract is a success."""
    if reply.kind is not ReplyKind.VALUE:
        said = f"{reply.error_type}: {reply.message}" if reply.error_type else reply.message
        return _refused(reply.kind.value, said)
    if tool.declared is not None and tool.declared.courier is not None:
        try:
            asked = asked_pause(tool.declared.entry, reply.value)
        except BadPause as wrong:
            return _refused("pause", f"The tool asked to wait. {wrong}")
        if asked is not None:
            said = "The tool asked to wait for another system; a check hands no link on."
            return _refused("waits", said)
    errors = tool.spec.output_errors(reply.value)
    if errors:
        return _refused("output", "The result does not satisfy the output schema.") | {
            "errors": [error.as_dict() for error in errors]
        }
    return _said(reply)


def _refused(outcome: str, message: str) -> dict[str, Any]:
    return {"ok": False, "outcome": outcome, "message": message}
