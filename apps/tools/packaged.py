"""How is a tool of an admitted package carried out? In the sandbox, under its exact bytes."""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.db import connection

from apps.core.correlation import current_correlation_id
from apps.domain.commandio.pins import CannotPin
from apps.domain.commandio.preparation import pins_of_package, refusal_of
from apps.domain.commandio.results import pixels_apart
from apps.domain.entries import (
    CommandEntry,
    FileEntry,
    HttpEntry,
    NodeEntry,
    PiEntry,
    PythonEntry,
)
from apps.domain.filescope.files import Files
from apps.domain.handing import BadPause, asked_pause
from apps.domain.lockfiles import BadLock, dependencies_of
from apps.domain.manifests import BadManifest, Manifest, parse_manifest
from apps.domain.manifests import PackageTool as Declared
from apps.domain.runtimes import Runtime
from apps.domain.tooling import (
    BadSpecification,
    Effect,
    Paused,
    Reason,
    Specification,
    ToolFailure,
    ToolOk,
)
from apps.domain.tooling.features import Feature
from apps.grants.selectors import granted_package_tools
from apps.packages.errors import TreeMismatch
from apps.packages.models import PackageFile, PackageTool, PackageVersion
from apps.packages.selectors import load_tree
from apps.runs.models import Run
from apps.sandbox.boundtools import Binding, call_bound_tool, session_name
from apps.sandbox.client import Limits
from apps.sandbox.commands import MOST_MS, Bench, call_command_tool
from apps.sandbox.dependencies import install
from apps.sandbox.errors import DependenciesMissing
from apps.sandbox.node import call_node_tool
from apps.sandbox.pi import call_pi_tool
from apps.sandbox.runner import ReplyKind, ToolReply, call_python_tool
from apps.sandbox.session_program import Door
from apps.sandbox.sessions import session_home, session_of_run
from apps.tools.contract import CallContext, Handler, Tool
from apps.tools.declared import call_request, hand_link_on, network_allowed
from apps.tools.filetools import call_declared_file_tool
from apps.tools.provenance import provenance_of

log = structlog.get_logger(__name__)

_REASONS = {
    ReplyKind.RAISED: Reason.COMMAND_FAILED,
    ReplyKind.STATED: Reason.REPORTED_FAILURE,
    ReplyKind.NOT_FOUND: Reason.NOT_FOUND,
    ReplyKind.BAD_REQUEST: Reason.INVALID_ARGUMENTS,
    ReplyKind.UNPREPARED: Reason.DEPENDENCY_UNAVAILABLE,
    ReplyKind.CRASHED: Reason.COMMAND_FAILED,
    ReplyKind.CONTRACT_ERROR: Reason.CONTRACT_ERROR,
    ReplyKind.PROTOCOL_ERROR: Reason.CONTRACT_ERROR,
    ReplyKind.TIMEOUT: Reason.TIMEOUT,
    ReplyKind.CANCELLED: Reason.CANCELLED,
    ReplyKind.CPU_LIMIT: Reason.LIMIT_EXCEEDED,
    ReplyKind.MEMORY_LIMIT: Reason.LIMIT_EXCEEDED,
    ReplyKind.OUTPUT_LIMIT: Reason.LIMIT_EXCEEDED,
    ReplyKind.TOO_MANY_FILES: Reason.LIMIT_EXCEEDED,
    ReplyKind.UNAVAILABLE: Reason.DEPENDENCY_UNAVAILABLE,
    ReplyKind.DRIVER_FAILED: Reason.DEPENDENCY_UNAVAILABLE,
}

# What a program printed when it failed, and what a tool says of itself.
_ITS_OWN_WORDS = frozenset({ReplyKind.STATED, ReplyKind.CRASHED})


def packaged_tools(agent_id: uuid.UUID) -> dict[str, Tool]:
    """Return the package tools that an agent holds now, by the names that models use."""
    tools = ((row.name, as_tool(row)) for row in granted_package_tools(agent_id))
    return {name: tool for name, tool in tools if tool is not None}


def packaged_tool(agent_id: uuid.UUID, name: str) -> Tool | None:
    """Return one package tool that an agent holds now, or None."""
    row = granted_package_tools(agent_id).filter(name=name).first()
    return None if row is None else as_tool(row)


def as_tool(row: PackageTool) -> Tool | None:
    """Turn an admitted tool into something that the boundary can judge and carry out.

    What was admitted under older rules and does not hold under these is no tool; others still are.
    """
    admitted = _Admitted(row.version_id, row.version)
    try:
        declared = _declared(admitted, row.name)
        spec = _specification(admitted, row.name)
    except (BadManifest, BadSpecification, LookupError) as broken:
        log.error("package_tool_unreadable", tool=row.name, error=str(broken)[:200])
        return None
    return Tool(
        spec=spec,
        handler=_handler(row, admitted),
        feature=Feature.PACKAGES,
        # A declared request is sent by us, and a file tool reads: neither is code of the package.
        runs_code=not isinstance(declared.entry, HttpEntry | FileEntry),
        unfit=_unfit(admitted, declared),
        runtimes=frozenset(declared.runtimes),
        home=_home(row, admitted),
    )


def _home(row: PackageTool, admitted: _Admitted) -> Callable[[dict[str, Any], Run], str] | None:
    """Return what names the other node where the session of a tool lives, if it has a session."""
    entry = _declared(admitted, row.name).entry
    if not isinstance(entry, CommandEntry) or not entry.session:
        return None
    manifest = _manifest(admitted)
    session = manifest.session(entry.session)
    if session is None:
        return None
    name = session_name(session, manifest.ref)
    return lambda arguments, run: session_home(run_id=run.pk, name=name)


def _unfit(admitted: _Admitted, declared: Declared) -> str:
    """Say why this deployment never carries out such a tool, or nothing."""
    courier = declared.courier
    if not network_allowed(declared.network) or not (
        courier is None or network_allowed(courier.network)
    ):
        return "This deployment lets packages have no such network, so the tool is off."
    if not isinstance(declared.entry, CommandEntry | FileEntry):
        return ""
    try:
        _prepare(admitted)
    except CannotPin as problem:
        return refusal_of(problem)
    return ""


@dataclass(frozen=True, slots=True)
class _Admitted:
    """A version with its manifest; two of one id are one, since no version ever changes."""

    version_id: uuid.UUID
    version: PackageVersion = field(compare=False)


@functools.lru_cache(maxsize=4096)
def _specification(admitted: _Admitted, name: str) -> Specification:
    return _declared(admitted, name).specification()


def _declared(admitted: _Admitted, name: str) -> Declared:
    manifest = _manifest(admitted)
    tool = manifest.tool(name)
    if tool is None:
        raise LookupError(f"The admitted manifest of {manifest.ref} has no tool {name}.")
    return tool


@functools.lru_cache(maxsize=512)
def _manifest(admitted: _Admitted) -> Manifest:
    return parse_manifest(admitted.version.manifest)


@functools.lru_cache(maxsize=4096)
def _prepare(admitted: _Admitted) -> None:
    """Find every path that a version's programs stand on, or raise CannotPin.

    Only that they are there is found, from their names: bytes are pinned when a program starts.
    Versions never change, so one that was found whole is not looked at again.
    """
    files = PackageFile.objects.filter(version_id=admitted.version_id)
    names = dict.fromkeys(files.values_list("path", flat=True), b"")
    pins_of_package(_manifest(admitted), names)


def _handler(row: PackageTool, admitted: _Admitted) -> Handler:
    def call(arguments: dict[str, Any], context: CallContext) -> ToolOk | ToolFailure | Paused:
        tool = _declared(admitted, row.name)
        if isinstance(tool.entry, HttpEntry):
            return call_request(tool, arguments, context)
        try:
            tree = load_tree(row.version)
        except TreeMismatch as changed:
            return ToolFailure(Reason.DEPENDENCY_UNAVAILABLE, str(changed))
        # The child may take its whole time: no connection is held while it runs.
        connection.close()
        reply = call_packaged(
            tool,
            _manifest(admitted),
            tree,
            arguments,
            deadline_s=context.deadline.remaining,
            cancelled=context.cancelled,
            sessions=session_of_run(context.run_id),
        )
        if tool.courier is not None and reply.kind is ReplyKind.VALUE:
            try:
                asked = asked_pause(tool.entry, reply.value)
            except BadPause as wrong:
                return ToolFailure(Reason.CONTRACT_ERROR, f"The tool asked to wait. {wrong}")
            if asked is not None:
                return hand_link_on(tool, asked, context)
        return _result(reply, tool, _specification(admitted, row.name))

    return call


def call_packaged(
    tool: Declared,
    manifest: Manifest,
    tree: Mapping[str, bytes],
    arguments: dict[str, Any],
    *,
    deadline_s: float,
    cancelled: Callable[[], bool] | None = None,
    path: Path | None = None,
    files: Files | None = None,
    sessions: Door | None = None,
) -> ToolReply:
    """Carry out one call of a declared tool on its package's files, by the kind of its entry.

    `path` is the socket of another supervisor than the deployment's; `files` are looked at by file
    tools instead of the tree; `sessions` is the way to the session that a tool is bound to.
    """
    # The runner has a deadline of its own, whatever the caller still has.
    deadline_s = min(deadline_s, settings.PKG_RUNNER_TIMEOUT_SECONDS)
    match tool.entry:
        case PythonEntry():
            return call_python_tool(
                tree=tuple(tree.items()),
                entry=tool.entry.label,
                arguments=arguments,
                limits=_limits(tool),
                deadline_s=deadline_s,
                correlation=current_correlation_id(),
                cancelled=cancelled,
                path=path,
                network=tool.network,
                runtimes=tool.runtimes,
            )
        case CommandEntry() | FileEntry() as entry:
            scope = manifest.artifact(tool.artifact)
            if scope is None:
                raise LookupError(f"{manifest.ref} has no artifact {tool.artifact}.")
            bench = Bench(
                tree, scope, _limits(tool), deadline_s, cancelled, path,
                published=tool.published, network=tool.network, runtimes=tool.runtimes,
            )  # fmt: skip
            if isinstance(entry, FileEntry):
                return call_declared_file_tool(entry, arguments, manifest, bench, files)
            if not entry.session:
                return call_command_tool(entry, arguments, bench)
            session = manifest.session(entry.session)
            if session is None or sessions is None:
                said = "A tool of a session is not called from here, so nothing was started."
                return ToolReply(ReplyKind.BAD_REQUEST, message=said)
            return call_bound_tool(
                entry, arguments, bench, Binding(session, sessions, manifest.ref)
            )
        case NodeEntry() | PiEntry():
            return _call_node(tool, tree, arguments, deadline_s, cancelled, path)
        case HttpEntry():
            raise TypeError("A declared request is made by us, and runs nowhere.")


def _call_node(
    tool: Declared,
    tree: Mapping[str, bytes],
    arguments: dict[str, Any],
    deadline_s: float,
    cancelled: Callable[[], bool] | None,
    path: Path | None,
) -> ToolReply:
    """Run a tool that Node runs, once all that its package needs is installed."""
    until = time.monotonic() + deadline_s
    correlation = current_correlation_id()
    try:
        installed = install(
            dependencies_of(tree),
            deadline_s=deadline_s,
            correlation=correlation,
            cancelled=cancelled,
            path=path,
        )
    except BadLock as broken:
        return ToolReply(ReplyKind.CONTRACT_ERROR, message=str(broken))
    except DependenciesMissing as missing:
        return ToolReply(ReplyKind.UNAVAILABLE, message=missing.message)
    left = max(0.001, until - time.monotonic())
    files = tuple(tree.items())
    limits = node_limits_of(tool.limits)
    if isinstance(tool.entry, PiEntry):
        return call_pi_tool(
            tree=files, entry=tool.entry, parameters=tool.definition["input"],
            arguments=arguments, dependencies=installed, limits=limits, deadline_s=left,
            correlation=correlation, cancelled=cancelled, path=path, network=tool.network,
        )  # fmt: skip
    if not isinstance(tool.entry, NodeEntry):
        raise TypeError("Only functions of Node and tools of Pi are run by Node.")
    return call_node_tool(
        tree=files, entry=tool.entry, arguments=arguments, dependencies=installed, limits=limits,
        deadline_s=left, correlation=correlation, cancelled=cancelled, path=path,
        network=tool.network,
    )  # fmt: skip


def _limits(tool: Declared) -> Limits:
    """Return what a function of Python or a program is held to, in the runtime it asked for."""
    wants_node = tool.runtime is Runtime.NODE
    return node_limits_of(tool.limits) if wants_node else limits_of(tool.limits)


def limits_of(asked: dict[str, int] | None) -> Limits:
    """Return what a call of a package's tool is held to, from what its definition asks for.

    Its time is bounded by what the call has left, and by nothing else.
    """
    return _asked(Limits(wall_ms=MOST_MS), asked)


def node_limits_of(asked: dict[str, int] | None) -> Limits:
    """Return the same for a tool that Node runs; it needs more before its first line."""
    return _asked(replace(Limits.for_node(), wall_ms=MOST_MS), asked)


def _asked(usual: Limits, asked: dict[str, int] | None) -> Limits:
    if asked is None:
        return usual
    return replace(usual, memory_mb=asked["memMB"], cpu_ms=asked["cpuMs"])


def _result(reply: ToolReply, tool: Declared, spec: Specification) -> ToolOk | ToolFailure:
    provenance = provenance_of(reply)
    if reply.kind is ReplyKind.VALUE:
        # Only a result that was read block by block has images that are known to be some.
        blocks = isinstance(tool.entry, CommandEntry | FileEntry | PiEntry)
        value, images = pixels_apart(reply.value) if blocks else (reply.value, ())
        return ToolOk(value, provenance=provenance, images=images)
    said = f"{reply.error_type}: {reply.message}" if reply.error_type else reply.message
    reason = _REASONS[reply.kind]
    if reply.kind is ReplyKind.DRIVER_FAILED and spec.effect is not Effect.READ:
        # It had begun, and nobody heard how it ended.
        reason, said = Reason.OUTCOME_UNKNOWN, f"{said} {_MAYBE}"
    return ToolFailure(
        reason,
        said,
        retryable=reply.kind is ReplyKind.UNAVAILABLE,
        exit_status=reply.exit_code,
        provenance=provenance,
        stated=reply.kind in _ITS_OWN_WORDS,
    )


_MAYBE = "Whether it changed anything is unknown; look before trying again."
