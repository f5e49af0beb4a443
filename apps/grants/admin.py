"""Which agent holds which tool, for administrators? Agents' own managers give and take."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.decorators import display

from apps.core.admin import Card, Cell, Fact, Sheet, SheetAdmin, code, moment, path_of, person
from apps.grants.models import ToolGrant


@admin.register(ToolGrant)
class ToolGrantAdmin(SheetAdmin):
    """Grants."""

    list_display = ("tool_name", "agent_name", "ref", "usable", "given_by", "created_at")
    search_fields = ("tool_name", "agent__slug", "version__ref")
    search_help_text = "Tool, agent or version"
    ordering = ("-created_at",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """List grants with what they name."""
        return ToolGrant.objects.select_related("agent", "version__package", "granted_by")

    @display(description="Agent")
    def agent_name(self, row: Any) -> str:
        """Name the agent."""
        return str(row.agent.name)

    @display(description="Version")
    def ref(self, row: Any) -> str:
        """Name the exact version."""
        return str(row.version.ref)

    @display(description="Package", label={"On": "success", "Off": "danger"})
    def usable(self, row: Any) -> str:
        """Say whether the package is on."""
        return "Off" if row.version.package.disabled_at else "On"

    @display(description="Given by")
    def given_by(self, row: Any) -> str:
        """Name who gave it."""
        return str(row.granted_by.name)

    def sheet(self, request: HttpRequest, obj: Any) -> Sheet:
        """Show one grant."""
        return Sheet(
            title=f"{obj.tool_name}, for {obj.agent.name}",
            icon="key",
            cards=[
                Card(
                    "Grant",
                    facts=[
                        Fact("Tool", code(obj.tool_name)),
                        Fact("Version", Cell(obj.version.ref, href=path_of(obj.version))),
                        Fact("Agent", Cell(obj.agent.name, href=path_of(obj.agent))),
                        Fact("Given by", person(obj.granted_by)),
                        Fact("Given", moment(obj.created_at)),
                    ],
                )
            ],
        )
