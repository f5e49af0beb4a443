"""How do administrators look after agents?"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from apps.accounts.identity import acting_user
from apps.accounts.permissions import Permission, may
from apps.agents.models import Agent
from apps.agents.services import disable_agent, enable_agent


@admin.register(Agent)
class AgentAdmin(ModelAdmin):
    """Agents, shown whole; their owners change them, administrators switch them off and on."""

    list_display = ("name", "slug", "owner_name", "enabled", "revision", "updated_at")
    list_filter = ("enabled",)
    search_fields = ("name", "slug", "owner__username")
    search_help_text = "Name, slug or owner"
    list_select_related = ("owner",)
    fields = (
        "slug",
        "name",
        "description",
        "owner",
        "enabled",
        "revision",
        "ceiling",
        "model_name",
        "parallel_tool_calls",
        "sees_images",
        "inactivity_s",
        "budget_s",
        "context_tokens",
        "persona",
        "created_at",
        "updated_at",
    )
    readonly_fields = fields
    actions = ("switch_off", "switch_on")

    @admin.display(description="Owner", ordering="owner__username")
    def owner_name(self, row: Agent) -> str:
        """Name the owner."""
        return row.owner.name

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Members make agents."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """What an agent is, its owner decides."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Runs name their agent for ever."""
        return False

    def has_manage_permission(self, request: HttpRequest) -> bool:
        """Whether this administrator has the duty of looking after agents."""
        return may(acting_user(request), Permission.AGENT_MANAGE)

    @admin.action(description="Switch the selected agents off", permissions=["manage"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[Agent]) -> None:
        """Let the selected agents start nothing new."""
        for agent in queryset:
            disable_agent(agent_id=agent.pk, actor=acting_user(request))
        self.message_user(request, "The agents are switched off.", messages.SUCCESS)

    @admin.action(description="Switch the selected agents on", permissions=["manage"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet[Agent]) -> None:
        """Let the selected agents work again."""
        for agent in queryset:
            enable_agent(agent_id=agent.pk, actor=acting_user(request))
        self.message_user(request, "The agents are switched on.", messages.SUCCESS)
