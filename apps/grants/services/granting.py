"""How does an agent get a package tool, and how does it lose it?"""

from __future__ import annotations

from typing import Any

from django.db import transaction

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.agents.services import lock_managed_agent
from apps.audit.services import record
from apps.domain.tooling import Capability
from apps.domain.words import shown
from apps.grants.errors import (
    AboveCeiling,
    GrantNotFound,
    PackageNotInUse,
    ToolNotGrantable,
    TooManyGrants,
)
from apps.grants.models import ToolGrant
from apps.packages.models import PackageTool

MAX_GRANTS = 100


@transaction.atomic
def grant_tool(*, agent_id: Any, granter: User, ref: str, tool: str) -> ToolGrant:
    """Give an agent one exact tool of one exact admitted version.

    A tool of that name from another version is replaced: an agent never holds two by one name.
    """
    agent = lock_managed_agent(agent_id=agent_id, actor=granter)
    if Capability.PACKAGES_CALL.value not in agent.ceiling:
        raise AboveCeiling(
            f"The ceiling of {agent.name} does not hold {Capability.PACKAGES_CALL.value}."
        )
    row = _grantable(ref=ref, tool=tool)
    held = ToolGrant.objects.filter(agent=agent, tool_name=row.name).first()
    if held is not None and held.version_id == row.version_id:
        return held
    if held is None and ToolGrant.objects.filter(agent=agent).count() >= MAX_GRANTS:
        raise TooManyGrants(f"An agent holds at most {MAX_GRANTS} package tools.")
    grant, _ = ToolGrant.objects.update_or_create(
        agent=agent,
        tool_name=row.name,
        defaults={"version": row.version, "granted_by": granter},
    )
    _record(agent, granter, "grant.given", ref=row.version.ref, tool=row.name)
    return grant


@transaction.atomic
def revoke_tool(*, agent_id: Any, revoker: User, tool: str) -> None:
    """Take a package tool away from an agent; a call that waits is judged again and refused."""
    agent = lock_managed_agent(agent_id=agent_id, actor=revoker)
    grant = ToolGrant.objects.select_related("version").filter(agent=agent, tool_name=tool).first()
    if grant is None:
        raise GrantNotFound("The agent holds no such tool.", field="tool")
    ref = grant.version.ref
    grant.delete()
    _record(agent, revoker, "grant.revoked", ref=ref, tool=tool)


def _grantable(*, ref: str, tool: str) -> PackageTool:
    row = (
        PackageTool.objects.select_related("version__package")
        .filter(version__ref=ref, name=tool)
        .first()
    )
    if row is None:
        raise ToolNotGrantable(
            f"No admitted package {shown(ref)} has a tool named {shown(tool)}.", field="tool"
        )
    package = row.version.package
    if package.disabled_at is not None:
        raise PackageNotInUse(f"The package {package.name} is switched off.", field="ref")
    if package.active_version_id != row.version_id:
        raise PackageNotInUse(
            f"{row.version.ref} is not the active version of {package.name}.", field="ref"
        )
    return row


def _record(agent: Agent, actor: User, action: str, *, ref: str, tool: str) -> None:
    record(
        actor=actor,
        action=action,
        subject=agent,
        detail={"agent": agent.slug, "ref": ref, "tool": tool},
    )
