"""Which package tools does an agent hold?"""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, F, OuterRef, QuerySet

from apps.agents.models import Agent
from apps.grants.models import ToolGrant
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
