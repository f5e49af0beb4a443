"""How is a tool of an admitted package carried out? In the sandbox, under its exact bytes."""

from __future__ import annotations

import functools
import uuid
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.db import connection

from apps.core.correlation import current_correlation_id
from apps.domain.manifests import BadManifest, Manifest, parse_manifest
from apps.domain.tooling import BadSpecification, Reason, Specification, ToolFailure, ToolOk
from apps.domain.tooling.features import Feature
from apps.grants.selectors import granted_package_tools
from apps.packages.errors import TreeMismatch
from apps.packages.models import PackageTool, PackageVersion
from apps.packages.selectors import load_tree
from apps.sandbox.client import Limits
from apps.sandbox.runner import ReplyKind, ToolReply, call_python_tool
from apps.tools.contract import CallContext, Handler, Tool

log = structlog.get_logger(__name__)

_REASONS = {
    ReplyKind.RAISED: Reason.COMMAND_FAILED,
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
    try:
        spec = _specification(_Admitted(row.version_id, row.version), row.name)
    except (BadManifest, BadSpecification, LookupError) as broken:
        log.error("package_tool_unreadable", tool=row.name, error=str(broken)[:200])
        return None
    return Tool(spec=spec, handler=_handler(row), feature=Feature.PACKAGES)


@dataclass(frozen=True, slots=True)
class _Admitted:
    """A version with its manifest; two of one id are one, since no version ever changes."""

    version_id: uuid.UUID
    version: PackageVersion = field(compare=False)


@functools.lru_cache(maxsize=4096)
def _specification(admitted: _Admitted, name: str) -> Specification:
    manifest = _manifest(admitted)
    tool = manifest.tool(name)
    if tool is None:
        raise LookupError(f"The admitted manifest of {manifest.ref} has no tool {name}.")
    return tool.specification()


@functools.lru_cache(maxsize=512)
def _manifest(admitted: _Admitted) -> Manifest:
    return parse_manifest(admitted.version.manifest)


def _handler(row: PackageTool) -> Handler:
    def call(arguments: dict[str, Any], context: CallContext) -> ToolOk | ToolFailure:
        try:
            tree = load_tree(row.version)
        except TreeMismatch as changed:
            return ToolFailure(Reason.DEPENDENCY_UNAVAILABLE, str(changed))
        # The child may take its whole time: no connection is held while it runs.
        connection.close()
        reply = call_python_tool(
            tree=tuple(tree.items()),
            entry=row.entry,
            arguments=arguments,
            limits=limits_of(row.definition.get("limits")),
            deadline_s=context.deadline.remaining,
            correlation=current_correlation_id(),
            cancelled=context.cancelled,
        )
        return _result(reply)

    return call


def limits_of(asked: dict[str, int] | None) -> Limits:
    """Return what a call of a package's tool is held to, from what its definition asks for."""
    if asked is None:
        return Limits()
    return Limits(memory_mb=asked["memMB"], cpu_ms=asked["cpuMs"])


def _result(reply: ToolReply) -> ToolOk | ToolFailure:
    if reply.kind is ReplyKind.VALUE:
        return ToolOk(reply.value)
    said = f"{reply.error_type}: {reply.message}" if reply.error_type else reply.message
    return ToolFailure(_REASONS[reply.kind], said, exit_status=reply.exit_code)
