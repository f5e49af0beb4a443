"""What happens when an agent runs a program? Lease, shared files, sandbox, check, then one commit.

Nothing is kept until the call settles: the files for people, the workspace and the end of the lease
commit together with the outcome, or none of them does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from apps.artifacts.errors import BadArtifact
from apps.artifacts.native import (
    Kept,
    NativeFile,
    check_file_name,
    hold_files,
    keep_files,
)
from apps.artifacts.services import Provenance
from apps.artifacts.sharing import Shared, share_files
from apps.core.blobs import stored_together
from apps.core.correlation import current_correlation_id
from apps.domain.tooling import FaultDomain, Reason, ToolFailure, ToolOk, ToolPrepared
from apps.domain.wishes import wants_no_retries
from apps.runs.selectors import words_of_member
from apps.sandbox.client import available, run
from apps.sandbox.coding import endings, sharing
from apps.sandbox.coding.inspecting import Found, inspect
from apps.sandbox.coding.programs import (
    LIMITS,
    BadTarget,
    Language,
    check_targets,
    start_of,
)
from apps.sandbox.contents import contents, take_back
from apps.sandbox.errors import (
    JobRefused,
    LeaseLost,
    SandboxUnavailable,
    WorkspaceBusy,
    WorkspaceFull,
)
from apps.sandbox.kernels import LANGUAGES, CellResult, keep_cell, run_cell
from apps.sandbox.leases import Lease, acquire, release
from apps.sandbox.spec import SandboxResult, SandboxSpec, WorkChanges
from apps.tools.contract import CallContext

CHECKING_S: Final = 30.0
"""Seconds of a call's time that are kept back for looking at its files and keeping them."""
MAX_NAMED: Final = 40
"""Names of changed files that a result lists."""

_CHANGED: Final = (
    "Somebody else has changed these files since this turn began, so the program did not find them."
    " Do not guess what was in them: go on without them, read the text of one with read_artifact,"
    " or say that the next turn will have the new versions."
)
_REFUSALS: Final = {
    "missing": "The program did not write it.",
    "link": "It is a link, not a file.",
    "hard_link": "It is a second name of another file.",
    "outside": "It leads out of the workspace.",
    "not_a_file": "It is no regular file.",
    "unreadable": "It cannot be read.",
    "too_large": "It is too large to be kept.",
    "bad_name": "Its name cannot be used.",
}


@dataclass(frozen=True, slots=True)
class _Done:
    """A program that ran: how it ended, and what was found of its files."""

    context: CallContext
    lease: Lease
    result: SandboxResult
    found: tuple[Found, ...]
    shared: Shared
    cell: CellResult

    @property
    def contents(self) -> dict[str, bytes]:
        return {output.name: output.content for output in self.result.outputs}


def run_code(arguments: dict[str, Any], context: CallContext) -> ToolFailure | ToolPrepared:
    """Run a program in the member's workspace of the room."""
    language = Language(arguments["language"])
    try:
        targets = check_targets(arguments["artifact_targets"])
        for name in targets:
            check_file_name(name)
    except (BadTarget, BadArtifact) as problem:
        return ToolFailure(Reason.INVALID_ARGUMENTS, f"{problem} Nothing was run.")
    kernel = arguments.get("kernel", False)
    if kernel and language.value not in LANGUAGES:
        said = f"A kernel speaks {' or '.join(LANGUAGES)}, not {language.value}. Nothing was run."
        return ToolFailure(Reason.INVALID_ARGUMENTS, said)
    try:
        shared = share_files(run_id=context.run_id, call_id=context.call_id, member=context.member)
    except sharing.BadSeal as broken:
        # Bytes that are not what they were: nothing that this call or its tool did.
        return ToolFailure(
            Reason.EXECUTION_ERROR, f"{broken} Nothing was run.", domain=FaultDomain.DEPENDENCY
        )
    try:
        lease = acquire(
            owner=context.member,
            room_id=context.room_id,
            call_id=context.call_id,
            deadline=context.deadline,
            gave_up=context.cancelled,
        )
    except WorkspaceBusy as busy:
        return ToolFailure(Reason.CONFLICT, str(busy), retryable=True)
    start = start_of(language, arguments["code"], runtimes=dict(available().runtimes))
    spec = SandboxSpec(
        argv=start.argv,
        runtimes=start.runtimes,
        harness=start.harness,
        stdin=start.stdin,
        waits=start.waits,
        shared=shared.files,
        env=sharing.variables(shared.sealed),
        # A kernel has most of them already, and asks for the others.
        workspace=() if kernel else contents(lease.workspace),
        keep_workspace=True,
        outputs=targets,
        limits=LIMITS,
        correlation_id=current_correlation_id(),
    )
    # The program may take its whole time: no connection is held while it runs.
    connection.close()
    try:
        cell = (language, arguments["code"]) if kernel else None
        return _carried_out(spec, context, lease, shared, cell)
    except SandboxUnavailable as away:
        release(lease)
        said = f"{away.message} Nothing was run."
        return ToolFailure(Reason.DEPENDENCY_UNAVAILABLE, said, retryable=True)
    except LeaseLost as lost:
        return ToolFailure(Reason.CONFLICT, str(lost), retryable=True)
    except JobRefused as refused:
        release(lease)
        return ToolFailure(Reason.LIMIT_EXCEEDED, f"{refused} Nothing was run.")


def _started(
    spec: SandboxSpec, context: CallContext, lease: Lease, cell: tuple[Language, str] | None
) -> CellResult:
    """Run a program of its own, or a cell in the workspace's kernel."""
    deadline_s = max(1.0, context.deadline.remaining - CHECKING_S)
    if cell is None:
        return CellResult(
            run(spec, deadline_s=deadline_s, on_output=context.say, cancelled=context.cancelled)
        )
    language, code = cell
    return run_cell(
        lease,
        language=language.value,
        code=code,
        base=spec,
        deadline_s=deadline_s,
        on_output=context.say,
        on_call=context.call_tool,
        cancelled=context.cancelled,
    )


def _carried_out(
    spec: SandboxSpec,
    context: CallContext,
    lease: Lease,
    shared: Shared,
    cell: tuple[Language, str] | None,
) -> ToolFailure | ToolPrepared:
    started = _started(spec, context, lease, cell)
    result = started.result
    if context.cancelled():
        release(lease)
        return ToolFailure(
            Reason.CANCELLED,
            "The program was stopped. Nothing of it was kept.",
            details=endings.printed(result),
        )
    left = [(one.name, one.content) for one in result.outputs if not one.refused]
    refused = [
        Found(one.name, unfit=_REFUSALS.get(one.refused, "It cannot be kept."))
        for one in result.outputs
        if one.refused
    ]
    try:
        found = (*inspect(left, cancelled=context.cancelled), *refused)
    except SandboxUnavailable as away:
        release(lease)
        said = f"The program ran, and its files could not be checked: {away.message}"
        return ToolFailure(
            Reason.DEPENDENCY_UNAVAILABLE,
            f"{said} Nothing of it was kept.",
            retryable=True,
            details=endings.printed(result),
        )
    done = _Done(context, lease, result, found, shared, started)
    return ToolPrepared(lambda: _keep(done))


def _keep(done: _Done) -> ToolOk | ToolFailure:
    """Keep what a program left, within the transaction that settles its call."""
    context, contents = done.context, done.contents
    files = [
        NativeFile(one.name, contents[one.name], one.media_type, one.preview)
        for one in done.found
        if not one.unfit
    ]
    changes = done.result.workspace
    full = ""
    hold_files(owner=context.member, room_id=context.room_id, names=[file.name for file in files])
    with stored_together(_bodies(files, changes)):
        kept = keep_files(
            owner=context.member,
            room_id=context.room_id,
            files=files,
            provenance=Provenance(
                run_id=context.run_id,
                call_id=context.call_id,
                agent_name=context.agent.name,
                agent_slug=context.agent.slug,
            ),
        )
        if changes is not None:
            try:
                take_back(done.lease, changes, release_after=True)
            except LeaseLost as lost:
                return ToolFailure(Reason.CONFLICT, str(lost), retryable=True)
            except WorkspaceFull as too_much:
                full = str(too_much)
    if not full:
        # Without its files, what a cell left in memory is not gone on with either.
        keep_cell(done.lease, done.cell)
    return _told(done, kept, full)


def _bodies(files: list[NativeFile], changes: WorkChanges | None) -> Iterator[bytes]:
    """Yield all that a call stores: two that made the same files store it in the same order."""
    for file in files:
        yield from file.bodies
    if changes is not None:
        yield from (file.content for file in changes.changed)


def _told(done: _Done, kept: dict[str, Kept], full: str) -> ToolOk | ToolFailure:
    """Say how a program ended, with everything that a model needs to go on or to mend it."""
    ending = endings.judge(done.result)
    unfit = [one for one in done.found if one.unfit]
    value = _value(done, kept, unfit, full)
    if ending.well and not unfit and not full:
        return ToolOk(value, artifacts=tuple(one.key for one in kept.values()))
    message = ending.message
    if unfit:
        names = ", ".join(f"{one.name}: {one.unfit}" for one in unfit[:5])
        message = f"{message} Not kept: {names}".strip()
    message = f"{message} {full}".strip()
    asked = " ".join(words_of_member(done.context.run_id))
    if not wants_no_retries(asked):
        value["repair_instruction"] = endings.repair_instruction(
            ending, unfit=[one.name for one in unfit], full=full
        )
    return ToolFailure(
        ending.reason or Reason.COMMAND_FAILED,
        message,
        retryable=ending.domain is not FaultDomain.CALLER and not ending.well,
        saved=_saved(done, kept, full),
        domain=FaultDomain.CALLER if ending.well else ending.domain,
        exit_status=ending.exit_code,
        details=value,
        # A cell that failed has a kernel to go on in: what stands in its memory is not lost.
        keeps_notes=bool(done.cell.generation) and not full,
    )


def _value(done: _Done, kept: dict[str, Kept], unfit: list[Found], full: str) -> dict[str, Any]:
    result, changes = done.result, done.result.workspace
    value: dict[str, Any] = {
        "exit_code": result.exit_code,
        **endings.printed(result),
        "files": [_file(name, one) for name, one in kept.items()],
        "milliseconds": result.stats.wall_ms,
    }
    if done.cell.value is not None:
        value["value"] = endings.tail(done.cell.value.encode("utf-8", "replace"))
    if done.cell.notes:
        value["kernel"] = list(done.cell.notes)
    if unfit:
        value["not_kept"] = [{"name": one.name, "why": one.unfit} for one in unfit]
    if changes is not None and not full:
        value["workspace"] = {
            "changed": [file.name for file in changes.changed[:MAX_NAMED]],
            "removed": list(changes.removed[:MAX_NAMED]),
            "left_out": [{"name": o.name, "why": o.code} for o in changes.left_out[:MAX_NAMED]],
        }
    if done.shared.left_out:
        value["shared_files_without_room"] = done.shared.left_out
    if done.shared.changed:
        value["shared_files_changed"] = {
            "files": [
                {"name": o.name, "artifact_id": o.artifact_id, "admitted": o.admitted, "now": o.now}
                for o in done.shared.changed
            ],
            "note": _CHANGED,
        }
    return value


def _file(name: str, kept: Kept) -> dict[str, Any]:
    version = kept.version
    return {
        "name": name,
        "artifact_id": str(version.artifact_id),
        "version": version.number,
        "media_type": version.media_type,
        "size": version.size,
        "unchanged": kept.reused,
    }


def _saved(done: _Done, kept: dict[str, Kept], full: str) -> tuple[str, ...]:
    """Name what a failed call kept all the same: versions first, then files of the workspace."""
    made = [one.key for one in kept.values() if not one.reused]
    changes = done.result.workspace
    if changes is not None and not full:
        made += [f"workspace:{file.name}" for file in changes.changed[:MAX_NAMED]]
        made += [f"workspace:{name} (removed)" for name in changes.removed[:MAX_NAMED]]
    return tuple(made)
