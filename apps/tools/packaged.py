"""How is a tool of an admitted package carried out? In the sandbox, under its exact bytes."""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.db import connection

from apps.core.correlation import current_correlation_id
from apps.domain.commandio.pins import CannotPin
from apps.domain.commandio.preparation import pins_of_package, refusal_of
from apps.domain.commandio.results import pixels_apart
from apps.domain.egress import Crossing
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
from apps.sandbox.boundtools import Binding, call_bound_tool
from apps.sandbox.client import Limits
from apps.sandbox.commands import Bench, call_command_tool
from apps.sandbox.dependencies import install
from apps.sandbox.errors import DependenciesMissing
from apps.sandbox.node import call_node_tool
from apps.sandbox.pi import call_pi_tool
from apps.sandbox.runner import ReplyKind, ToolReply, call_python_tool
from apps.tools.contract import CallContext, Handler, Tool
from apps.tools.declared import call_request, hand_link_on, network_allowed
from apps.tools.filetools import call_declared_file_tool

MAX_TOLD = 40
"""Destinations that the audit trail tells of one call."""

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
        unfit=_unfit(admitted, declared),
        runtimes=frozenset(declared.runtimes),
    )


def _unfit(admitted: _Admitted, declared: Declared) -> str:
    """Say why this deployment never carries out such a tool, or nothing."""
    courier = declared.courier
    if not network_allowed(declared.network) or not (
        courier is None or network_allowed(courier.network)
    ):
        return "This deployment lets packages have no such network, so the tool is off."
    if not isinstance(declared.entry, CommandEntry):
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
            run_id=context.run_id,
        )
        if tool.courier is not None and reply.kind is ReplyKind.VALUE:
            try:
                asked = asked_pause(tool.entry, reply.value)
            except BadPause as wrong:
                return ToolFailure(Reason.CONTRACT_ERROR, f"The tool asked to wait. {wrong}")
            if asked is not None:
                return hand_link_on(tool, asked, context)
        return _result(reply, tool)

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
    run_id: uuid.UUID | None = None,
) -> ToolReply:
    """Carry out one call of a declared tool on its package's files, by the kind of its entry.

    `path` is the socket of another supervisor than the deployment's; `files` are looked at by file
    tools instead of the tree. A session lives as long as the run that is named.
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
            if session is None or run_id is None:
                said = "A tool of a session is called within a run, so nothing was started."
                return ToolReply(ReplyKind.BAD_REQUEST, message=said)
            return call_bound_tool(entry, arguments, bench, Binding(session, run_id, manifest.ref))
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
    """Return what a call of a package's tool is held to, from what its definition asks for."""
    if asked is None:
        return Limits()
    return Limits(memory_mb=asked["memMB"], cpu_ms=asked["cpuMs"])


def node_limits_of(asked: dict[str, int] | None) -> Limits:
    """Return the same for a tool that Node runs; it needs more before its first line."""
    if asked is None:
        return Limits.for_node()
    return Limits.for_node(memory_mb=asked["memMB"], cpu_ms=asked["cpuMs"])


def _result(reply: ToolReply, tool: Declared) -> ToolOk | ToolFailure:
    provenance = _provenance(reply)
    if reply.kind is ReplyKind.VALUE:
        # Only a result that was read block by block has images that are known to be some.
        blocks = isinstance(tool.entry, CommandEntry | FileEntry | PiEntry)
        value, images = pixels_apart(reply.value) if blocks else (reply.value, ())
        return ToolOk(value, provenance=provenance, images=images)
    said = f"{reply.error_type}: {reply.message}" if reply.error_type else reply.message
    return ToolFailure(
        _REASONS[reply.kind],
        said,
        exit_status=reply.exit_code,
        provenance=provenance,
        stated=reply.kind in _ITS_OWN_WORDS,
    )


def _provenance(reply: ToolReply) -> dict[str, Any]:
    """Return what is kept of how a call was run: what it stood on, and what it was not given."""
    kept: dict[str, Any] = {}
    if reply.pins:
        kept["executionPaths"] = {name: dict(pins) for name, pins in reply.pins.items()}
    if reply.clamped:
        kept["clamped"] = [
            {"limit": one.name, "asked": one.asked, "given": one.given} for one in reply.clamped
        ]
    if reply.crossings:
        kept["network"] = _crossed(reply.crossings)
    return kept


def _crossed(crossings: Sequence[Crossing]) -> dict[str, Any]:
    """Return what a call tried to reach: each destination with its verdict, counts and bytes.

    Of very many, what was reached is told before what was refused, and first what got the most.
    """
    told: dict[tuple[str, int, str], list[Crossing]] = {}
    for one in crossings:
        told.setdefault((one.host, one.port, one.verdict), []).append(one)
    first = sorted(
        told.items(),
        key=lambda item: (any(one.address for one in item[1]), sum(one.sent for one in item[1])),
        reverse=True,
    )
    return {
        "tried": [
            {
                "host": host,
                "port": port,
                "verdict": verdict,
                "addresses": sorted({one.address for one in all_of if one.address})[:4],
                "times": len(all_of),
                "received": sum(one.received for one in all_of),
                "sent": sum(one.sent for one in all_of),
            }
            for (host, port, verdict), all_of in first[:MAX_TOLD]
        ],
        "more": max(0, len(told) - MAX_TOLD),
    }
