"""Which package tools does an agent hold, and what does a member keep of them?"""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, F, JSONField, OuterRef, QuerySet, Subquery

from apps.agents.models import Agent
from apps.domain.policy import Narrowing
from apps.grants.models import ToolChoice, ToolGrant
from apps.packages.models import PackageTool


def granted_package_tools(agent_id: Any) -> QuerySet[PackageTool]:
    """Return the tools that an agent may be offered now, with version and package, in one query.

    A grant names an exact admitted version and stays with it when a newer one becomes active. A
    package that is switched off, or has no active version, gives nothing.
    """
    return (
        PackageTool.objects.filter(
            version__grants__agent_id=agent_id,
            version__grants__tool_name=F("name"),
            version__package__disabled_at=None,
            version__package__active_version__isnull=False,
        )
        .select_related("version__package")
        .order_by("name")
    )


def grants_of(agent: Agent) -> QuerySet[ToolGrant]:
    """Return what an agent was given, each with whether it can be used now."""
    usable = PackageTool.objects.filter(
        version_id=OuterRef("version_id"),
        name=OuterRef("tool_name"),
        version__package__disabled_at=None,
        version__package__active_version__isnull=False,
    )
    return (
        ToolGrant.objects.filter(agent=agent)
        .select_related("version__package", "granted_by")
        .annotate(usable=Exists(usable))
    )


def kept_tools(*, room: Any, agent: Any, member: Any) -> Subquery:
    """The list that a member keeps of an agent's tools in a room, to be read with something else.

    The three are references into the outer query, or values; no row is null.
    """
    rows = ToolChoice.objects.filter(room_id=room, agent_id=agent, member_id=member)
    return Subquery(rows.values("tools")[:1], output_field=JSONField())


def choice_of(*, room_id: Any, agent_id: Any, member_id: Any) -> Narrowing:
    """Return what a member keeps of an agent's tools in a room."""
    rows = ToolChoice.objects.filter(room_id=room_id, agent_id=agent_id, member_id=member_id)
    return narrowing(rows.values_list("tools", flat=True).first())


def narrowing(names: Any) -> Narrowing:
    """Return a stored list of names; null narrows nothing, and what is no list leaves nothing."""
    if names is None:
        return Narrowing()
    kept = names if isinstance(names, list) else []
    return Narrowing(frozenset(name for name in kept if isinstance(name, str)))
